"""The page: one HTML file that shows a run, opens from disk and loads nothing from anywhere.

`gather` makes a frozen `Contents` of what the page shows, out of what other rooms compute;
`write_page` packs it into the template that `web/` is built into. `pack` is a graph alone, for
whoever replays it with the engine as WebAssembly.
"""

from paceline.report.page.carry import carried_by_default, named
from paceline.report.page.conditions import conditions
from paceline.report.page.contents import Contents, Live, Scenario
from paceline.report.page.gather import PageRequest, gather, gather_prediction
from paceline.report.page.levels import coarse
from paceline.report.page.pack import MAGIC, PageData, graph_columns, graph_facts, pack, packed
from paceline.report.page.prices import link_prices
from paceline.report.page.scenarios import JobOnCluster, asked_for
from paceline.report.page.write import packed_value, page_of, template, write_page

__all__ = [
    "MAGIC",
    "Contents",
    "JobOnCluster",
    "Live",
    "PageData",
    "PageRequest",
    "Scenario",
    "asked_for",
    "carried_by_default",
    "coarse",
    "conditions",
    "gather",
    "gather_prediction",
    "graph_columns",
    "graph_facts",
    "link_prices",
    "named",
    "pack",
    "packed",
    "packed_value",
    "page_of",
    "template",
    "write_page",
]
