"""Tables of `analyse`: one a file, each from values to something that rich prints."""

from paceline.report.text.analyses.copies import copies_table
from paceline.report.text.analyses.counters import counters_table
from paceline.report.text.analyses.device import device_table
from paceline.report.text.analyses.idle import idle_table
from paceline.report.text.analyses.kernels import kernels_table
from paceline.report.text.analyses.launches import launches_table
from paceline.report.text.analyses.sequences import sequences_table
from paceline.report.text.analyses.shapes import shapes_table
from paceline.report.text.analyses.tree import tree_shown

__all__ = [
    "copies_table",
    "counters_table",
    "device_table",
    "idle_table",
    "kernels_table",
    "launches_table",
    "sequences_table",
    "shapes_table",
    "tree_shown",
]
