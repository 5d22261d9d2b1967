"""Tables of `analyse`: one topic a file, each from values to rows of text."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from paceline.report.text.analyses.copies import copies_rows
from paceline.report.text.analyses.counters import counters_rows
from paceline.report.text.analyses.device import device_rows
from paceline.report.text.analyses.idle import idle_rows
from paceline.report.text.analyses.kernels import kernels_rows
from paceline.report.text.analyses.launches import launches_rows
from paceline.report.text.analyses.sequences import sequences_rows
from paceline.report.text.analyses.shapes import shapes_rows
from paceline.report.text.analyses.tree import tree_rows, tree_shown
from paceline.report.text.table import TableRows

__all__ = ["ROWS", "tree_shown"]

ROWS: Final[Mapping[str, Callable[[Any, int], TableRows]]] = {
    "device": device_rows,
    "idle": idle_rows,
    "kernels": kernels_rows,
    "sequences": sequences_rows,
    "launches": launches_rows,
    "copies": copies_rows,
    "tree": tree_rows,
    "shapes": shapes_rows,
    "counters": counters_rows,
}
"""By the topics of `analyse.topics`."""
