"""Why does one run take longer than another? The difference of two runs' steps, by cause.

    found = diff(side_of("runs/a"), side_of("runs/b"))
    found.causes[0]                         # what changed most, in words

Steps are aligned by phase, layer and operator, so runs of other vendors or versions compare.
"""

from paceline.compare.causes import Cause, CauseKind
from paceline.compare.difference import Difference, Verdict, diff
from paceline.compare.noise import Noise
from paceline.compare.side import Side, side_of, side_of_graph

__all__ = [
    "Cause",
    "CauseKind",
    "Difference",
    "Noise",
    "Side",
    "Verdict",
    "diff",
    "side_of",
    "side_of_graph",
]
