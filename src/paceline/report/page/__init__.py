"""What a page that shows a run carries: its graph, packed, and what its engine is to do with it."""

from paceline.report.page.conditions import conditions
from paceline.report.page.levels import coarse
from paceline.report.page.pack import MAGIC, Part, graph_columns, graph_facts, pack, packed
from paceline.report.page.prices import link_prices

__all__ = [
    "MAGIC",
    "Part",
    "coarse",
    "conditions",
    "graph_columns",
    "graph_facts",
    "link_prices",
    "pack",
    "packed",
]
