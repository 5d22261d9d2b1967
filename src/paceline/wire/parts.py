"""`Parts`: a tensor in pieces of whole packets: one is on its way back while others come."""

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.wire.errors import WireError

PACKETS = 16
"""Of a part. Fewer let the first part come back sooner; each costs a few messages."""
MOST_PARTS = 2**16


@dataclass(frozen=True)
class Parts:
    """Of a tensor of `values` values."""

    values: int
    packet_values: int
    packets: int = PACKETS

    def __post_init__(self) -> None:
        if self.packets < 1 or len(self) > MOST_PARTS:
            raise WireError(
                f"{self.values} values in parts of {self.packets} packets; give 1 packet or more, "
                f"and so many that there are no more than {MOST_PARTS} parts"
            )

    def __len__(self) -> int:
        return -(-self.values // self._size)

    def __iter__(self) -> Iterator[slice]:
        """Which values each has."""
        for first in range(0, self.values, self._size):
            yield slice(first, min(first + self._size, self.values))

    def packets_of(self, part: slice) -> slice:
        """Which packets of the tensor carry it."""
        return slice(part.start // self.packet_values, -(-part.stop // self.packet_values))

    def budget(self, part: slice, share: float) -> float:
        """The share of a part that may be lost where the whole tensor's budget may be spent there:
        a burst of losses strikes packets that follow one another."""
        count: int = part.stop - part.start
        return min(1.0, share * self.values / count)

    @property
    def _size(self) -> int:
        return self.packets * self.packet_values
