"""Which packets matter, and how switches are told: by layer, and by magnitude within the layer.

The class of service has a priority (3 bits, 0 is served first) and an importance (3 bits, 7 is
dropped last) in the DSCP, and in the ECN field whether a full queue may mark the packet (important)
or is to drop it.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from paceline.wire.errors import WireError

LEVELS = 8
MARKABLE, DROPPABLE = 0b10, 0b00  # the ECN field: ECT(0), not capable


def service(priority: int, importance: int, *, markable: bool) -> int:
    """The IPv4 type-of-service byte of a packet."""
    if not (0 <= priority < LEVELS and 0 <= importance < LEVELS):
        raise WireError(f"priority {priority} and importance {importance} must be from 0 to 7")
    return (priority << 5) | (importance << 2) | (MARKABLE if markable else DROPPABLE)


CONTROL_TOS = service(0, LEVELS - 1, markable=True)
"""Of all that is not data: first in line, and never dropped for being unimportant."""


@dataclass(frozen=True)
class Marks:
    """Of one tensor on its way: a byte per packet, or one for all."""

    tos: NDArray[np.uint8]
    important: NDArray[np.uint8]  # 1: it must arrive; empty: none must


PLAIN = Marks(np.full(1, service(1, 0, markable=True), np.uint8), np.empty(0, np.uint8))
"""No packet before another; all may be marked."""


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
        priority = np.rint(1 + place * 5).astype(np.int64)  # 0 is control's
        standing = np.where(important > 0, 7, np.rint(place * 5)).astype(np.int64)
        ecn = np.where(important > 0, MARKABLE, DROPPABLE)
        return ((priority << 5) | (standing << 2) | ecn).astype(np.uint8)
