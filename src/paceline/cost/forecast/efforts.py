"""How much each kind of operator's fit may learn beyond its formulas.

Chosen by leaving devices out: a net wins for convolutions, vectors and today's types, where many
devices or a steady form teach it; for float32 products, whose devices differ by generation, it loses.
"""

from collections.abc import Mapping
from typing import Final

from paceline.cost.forecast.fitting import Effort
from paceline.cost.forecast.net import Learning

_KNOWN: Final = Learning(hidden=(48, 48), steps=6000)
_SMALL: Final = Effort(Learning((16, 16), 600), _KNOWN)

EFFORTS: Final[Mapping[str, Effort]] = {
    "bmm.float32": Effort(None, _KNOWN),
    "linear.float32": Effort(None, _KNOWN),
    "softmax.float32": Effort(Learning(), _KNOWN),
    "norm.float32": Effort(Learning((8, 8), 300, decay=0.03), _KNOWN),
}
"""By task and type; every other is small."""


def effort_of(key: str) -> Effort:
    """The effort for a key such as `linear.float32.nvidia`."""
    return EFFORTS.get(key.rpartition(".")[0], _SMALL)
