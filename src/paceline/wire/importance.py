"""Which packets matter: by layer, and by magnitude within the layer. What switches are told of it
stands in the TOS byte that `switch.codes` describes; important packets are to be marked by a full
queue, others dropped.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from paceline.wire.errors import WireError
from paceline.wire.switch.codes import IMPORTANCES, Code, tos, tos_of_each

CONTROL_TOS = tos(Code(0, IMPORTANCES - 1), markable=True)
"""Of all that is not data: first in line, and never dropped for being unimportant."""
LAST_PRIORITY = 6
"""Of the last layer's packets. 0 is control's, 7 that of packets that say nothing."""


@dataclass(frozen=True)
class Marks:
    """Of one tensor on its way: a byte per packet, or one for all."""

    tos: NDArray[np.uint8]
    important: NDArray[np.uint8]  # 1: it must arrive; empty: none must

    def of(self, packets: slice) -> "Marks":
        """Of some of its packets."""
        each = self.tos if len(self.tos) == 1 else self.tos[packets]
        return Marks(each, self.important[packets])


UNMARKED = Marks(np.full(1, tos(None, markable=True), np.uint8), np.empty(0, np.uint8))
"""Switches serve and drop them as they do other people's packets, and may mark them."""


@dataclass
class RunningQuantile:
    """Below it lies a share `q` of what is seen, the newest weighing `gain`."""

    q: float
    gain: float = 0.2
    value: float = float("nan")

    def add(self, seen: NDArray[np.float32]) -> float:
        now = float(np.quantile(seen, self.q))
        known = np.isfinite(self.value)
        self.value = self.value + self.gain * (now - self.value) if known else now
        return self.value


@dataclass
class Importance:
    """Says which packets of a step's gradients matter, and learns each layer's scale.

    `top` is the share of a layer's packets that must arrive. Front layers (low numbers) are needed
    first in the next step and go first; back layers lose more by a lost value.
    """

    layers: int
    top: float = 0.1
    seen: dict[int, RunningQuantile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.top <= 1 or self.layers < 1:
            raise WireError(f"{self.layers} layers, of which {self.top:g} matters, cannot be")

    def marks(self, magnitudes: NDArray[np.float32], layer: NDArray[np.int64]) -> Marks:
        """By each packet's mean magnitude and layer."""
        important = np.zeros(len(magnitudes), np.uint8)
        for each in np.unique(layer):
            mine = layer == each
            limit = self.seen.setdefault(int(each), RunningQuantile(1 - self.top))
            important[mine] = magnitudes[mine] > limit.add(magnitudes[mine])
        return Marks(self._services(layer, important), important)

    def _services(
        self, layer: NDArray[np.int64], important: NDArray[np.uint8]
    ) -> NDArray[np.uint8]:
        place = np.clip(layer / max(1, self.layers - 1), 0, 1)  # 0 the first layer, 1 the last
        priority = np.rint(1 + place * (LAST_PRIORITY - 1)).astype(np.int64)
        matters = important > 0
        standing = np.where(matters, IMPORTANCES - 1, np.rint(place * (IMPORTANCES - 3)))
        return tos_of_each(priority, standing.astype(np.int64), matters)
