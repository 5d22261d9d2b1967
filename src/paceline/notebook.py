"""`InNotebook`: a value that Jupyter and VS Code show as a figure; `report.html` draws it.

Rooms above `report` cannot import it, so it is looked up when a notebook asks.
"""

from importlib import import_module


class InNotebook:
    """Shown by notebooks with `report.html`."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        shown: str = import_module("paceline.report.html").html_of(self)
        return shown
