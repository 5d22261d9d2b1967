"""The page: one HTML file that shows a run, opens from disk and loads nothing from anywhere.

`gather` makes a frozen `Contents` of what the page shows, out of what other rooms compute;
`write_page` packs it into the template that `web/` is built into.
"""

from paceline.report.page.carry import carried_by_default, named
from paceline.report.page.contents import Contents
from paceline.report.page.gather import Asked, gather
from paceline.report.page.write import write_page

__all__ = ["Asked", "Contents", "carried_by_default", "gather", "named", "write_page"]
