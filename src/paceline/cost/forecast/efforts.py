"""How much each kind of operator's fit may learn beyond its formulas.

Chosen by leaving devices out: a net wins for convolutions, vectors and today's types, where many
devices or a steady form teach it; for float32 products, whose devices differ by generation, it
loses.
"""

from collections.abc import Mapping
from typing import Final

from paceline.cost.forecast.fitting import FORMULAS, Effort
from paceline.cost.forecast.net import Learning

_SMALL: Final = Effort(Learning((16, 16), 600))
_LEAST: Final = Effort(Learning((8, 8), 300, decay=0.03))

EFFORTS: Final[Mapping[str, Effort]] = {
    "bmm.float32": FORMULAS,
    "linear.float32": FORMULAS,
    "softmax.float32": Effort(Learning()),
    "norm.float32": _LEAST,
    "experts.bfloat16": _LEAST,
}
"""By task and type; every other is small."""


def effort_of(key: str) -> Effort:
    """The effort for a key such as `linear.float32.nvidia`."""
    return EFFORTS.get(key.rpartition(".")[0], _SMALL)
