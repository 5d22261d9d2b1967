"""`WireGroup`: ranks that reduce their gradients together over the transport.

All-reduce is a reduce-scatter, in which values may be lost within a bound, and an all-gather of the
sums, in which none are, or where some are, all ranks keep the same older values in their place.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from paceline.wire.endpoint import Endpoint
from paceline.wire.errors import WireError
from paceline.wire.importance import UNMARKED, Importance, Marks
from paceline.wire.ledger import Ledger
from paceline.wire.orders import Arrived, Orders, Receive, Send, TransferPhase
from paceline.wire.settings import core

Float32 = NDArray[np.float32]
Flags = NDArray[np.uint8]


@dataclass(frozen=True)
class Bounds:
    """Shares of values that may be lost, of each tensor on its way, and of a step in all. They are
    spent on what the network loses, never on a network that loses nothing."""

    gradients: float = 0.0  # pushed, or scattered
    parameters: float = 0.0  # pulled, or gathered; older values then stay
    step: float = 1.0  # of a step's gradients

    def __post_init__(self) -> None:
        for name in ("gradients", "parameters", "step"):
            if not 0 <= getattr(self, name) <= 1:
                raise WireError(
                    f"a bound on lost {name} of {getattr(self, name)} was given; "
                    "give a share from 0 to 1"
                )


@dataclass
class WireGroup:
    """One rank's view. `ranks` are all members, ours among them, in the order of addition."""

    endpoint: Endpoint
    ranks: Sequence[int]
    bounds: Bounds = field(default_factory=Bounds)
    importance: Importance | None = None
    ledger: Ledger = field(default_factory=Ledger)
    before: dict[int, Float32] = field(default_factory=dict)
    """Of each tensor, the sums of its last step, where gathered values may be lost."""

    @property
    def others(self) -> list[int]:
        return [rank for rank in self.ranks if rank != self.endpoint.rank]

    def all_reduce(
        self, values: Float32, *, step: int, tensor: int = 0, layers: "Layers | None" = None
    ) -> None:
        """The values become the sum over all ranks, in their order; where some of a rank's were
        lost, the sum of those that came, scaled to all ranks."""
        parts = dict(zip(self.ranks, np.array_split(values, len(self.ranks))))
        self._scatter(parts, step, tensor, layers or Layers(len(values)))
        self._gather(values, parts, step, tensor)

    def _scatter(
        self, parts: Mapping[int, Float32], step: int, tensor: int, layers: "Layers"
    ) -> None:
        mine = parts[self.endpoint.rank]
        rooms = {rank: np.zeros_like(mine) for rank in self.others}
        starts = dict(zip(self.ranks, _starts(parts.values())))
        sends = [
            Send(rank, parts[rank], tensor, layers.at(starts[rank]),
                 self.marks(parts[rank], layers, starts[rank]))
            for rank in self.others
        ]  # fmt: skip
        receives = [
            Receive(rank, room, tensor, self.bounds.gradients) for rank, room in rooms.items()
        ]
        total = sum(room.nbytes for room in rooms.values())
        allowed = int(self.bounds.step * total)
        came = self.exchange(Orders(step, TransferPhase.SCATTER, sends, receives, allowed))
        everything = [
            (rooms[rank], came[rank].flags) if rank in rooms else (mine, np.empty(0, np.uint8))
            for rank in self.ranks
        ]
        if mine.size:
            add_up(everything, self.endpoint.tuning.packet_values, mine)

    def _gather(
        self, values: Float32, parts: Mapping[int, Float32], step: int, tensor: int
    ) -> None:
        older = self.before.get(tensor)
        allowed = self.bounds.parameters if older is not None else 0.0
        mine = parts[self.endpoint.rank]
        sends = [Send(rank, mine, tensor) for rank in self.others]
        receives = [Receive(rank, parts[rank], tensor, allowed) for rank in self.others]
        came = self.exchange(Orders(step, TransferPhase.GATHER, sends, receives))
        if allowed:
            assert older is not None
            self._agree(parts, dict(zip(self.ranks, _parts_of(older, parts))), came, step, tensor)
        if self.bounds.parameters:
            self.before[tensor] = values.copy()

    def _agree(
        self,
        parts: Mapping[int, Float32],
        older: Mapping[int, Float32],
        came: Mapping[int, Arrived],
        step: int,
        tensor: int,
    ) -> None:
        """What one rank lacks, all take from the step before, so that they stay equal."""
        count = self.endpoint.tuning.packets
        sizes = [count(parts[rank].nbytes) for rank in self.ranks]
        full = [
            came[rank].flags[:size] if rank in came else np.ones(size, np.uint8)
            for rank, size in zip(self.ranks, sizes)
        ]
        mine = np.packbits(np.concatenate(full))
        rooms = {rank: np.zeros_like(mine) for rank in self.others}
        sends = [Send(rank, mine, tensor) for rank in self.others]
        receives = [Receive(rank, room, tensor) for rank, room in rooms.items()]
        self.exchange(Orders(step, TransferPhase.FLAGS, sends, receives))
        everywhere = np.bitwise_and.reduce([mine, *rooms.values()])
        there = np.split(np.unpackbits(everywhere)[: sum(sizes)], np.cumsum(sizes)[:-1])
        for rank, flags in zip(self.ranks, there):
            fill(parts[rank], older[rank], flags, self.endpoint.tuning.packet_values)

    def exchange(self, orders: Orders) -> dict[int, Arrived]:
        """By rank, what came; entered in the ledger."""
        came = self.endpoint.exchange(orders)
        self.ledger.add(came)
        return {one.transfer.peer: one for one in came}

    def wait(self) -> list[Arrived]:
        """What came of what was posted; entered in the ledger."""
        came = self.endpoint.wait()
        self.ledger.add(came)
        return came

    def marks(self, values: Float32, layers: "Layers", start: int = 0) -> Marks:
        """Of values that begin at that place of their tensor."""
        if self.importance is None or not values.size:
            return UNMARKED
        size = self.endpoint.tuning.packet_values
        magnitudes = core().wire_magnitudes(np.ascontiguousarray(values), size)
        return self.importance.marks(magnitudes, layers.of_packets(start, len(values), size))


@dataclass(frozen=True)
class Layers:
    """Where the layers of a tensor of many lie: `numbers[i]` ends before value `ends[i]`."""

    count: int
    ends: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()

    def at(self, place: int) -> int:
        return int(self.of_packets(place, 1, 1)[0])

    def of_packets(self, start: int, count: int, packet_values: int) -> NDArray[np.int64]:
        """The layer of each packet's first value."""
        places = np.arange(start, start + count, packet_values)
        if not self.numbers:
            return np.zeros(len(places), np.int64)
        found = np.searchsorted(self.ends, places, side="right")
        return np.asarray(self.numbers, np.int64)[np.minimum(found, len(self.numbers) - 1)]


def add_up(parts: Sequence[tuple[Float32, Flags]], packet_values: int, into: Float32) -> None:
    """The sum of what came, scaled by all over those that came; see native/wire_reduce.hpp."""
    core().wire_sum(list(parts), packet_values, into)


def fill(values: Float32, older: Float32, flags: Flags, packet_values: int) -> None:
    """Put the older values where a packet is missing."""
    for packet in np.flatnonzero(flags == 0):
        place = slice(packet * packet_values, (packet + 1) * packet_values)
        values[place] = older[place]


def _starts(parts: Iterable[Float32]) -> list[int]:
    sizes = [len(part) for part in parts]
    return [0, *np.cumsum(sizes)[:-1].tolist()]


def _parts_of(values: Float32, like: Mapping[int, Float32]) -> list[Float32]:
    ends = np.cumsum([len(part) for part in like.values()])[:-1]
    return np.split(values, ends)
