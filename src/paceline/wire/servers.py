"""A parameter server over the transport: workers push gradients, and pull parameters.

Each way has a bound of its own. A pulled value stands for all workers, so fewer of them may be lost
than of pushed ones; the worker then keeps what it pulled the step before.

`step` does both ways at once, part by part: what all workers have pushed of a part is added up, the
server changes its parameters, and hands them out while the rest is still being pushed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from paceline.wire.group import Float32, Layers, WireGroup, add_up
from paceline.wire.orders import Arrived, Orders, Receive, Send, TransferPhase
from paceline.wire.parts import PACKETS, Parts


@dataclass
class Server:
    """The server's half. It contributes nothing itself: `group.others` are its workers."""

    group: WireGroup
    part_packets: int = PACKETS

    def step(
        self, sums: Float32, values: Float32, update: Callable[[slice], None], *, step: int
    ) -> None:
        """`update(part)` is to change that part of `values` by that part of `sums`, which then
        holds what the workers pushed, added up. The last parts may still be on their way to workers
        when this returns; the next step, or `settle`, goes on with them."""
        parts = _parts(self.group, len(sums), self.part_packets)
        where = list(parts)
        rooms = {rank: np.empty_like(sums) for rank in self.group.others}
        self._ask(rooms, parts, step)
        for number, came in self._whole(len(where)):
            part = where[number]
            pushed = [(rooms[one.transfer.peer][part], one.flags) for one in came]
            add_up(pushed, parts.packet_values, sums[part])
            update(part)
            sends = [Send(rank, values[part], number) for rank in rooms]
            self.group.endpoint.post(Orders(step, TransferPhase.PULL, sends))

    def _ask(self, rooms: dict[int, Float32], parts: Parts, step: int) -> None:
        bounds = self.group.bounds
        receives = [
            Receive(rank, room[part], number, parts.budget(part, bounds.gradients))
            for rank, room in rooms.items()
            for number, part in enumerate(parts)
        ]
        total = sum(room.nbytes for room in rooms.values())
        allowed = int(min(bounds.gradients, bounds.step) * total)
        self.group.endpoint.post(Orders(step, TransferPhase.PUSH, (), receives, allowed))

    def _whole(self, parts: int) -> Iterator[tuple[int, list[Arrived]]]:
        """Each part's number once all workers' have come, and what came, in workers' order."""
        waiting: dict[int, list[Arrived]] = defaultdict(list)
        while parts:
            for one in self.group.wait():
                there = waiting[one.transfer.tensor]
                there.append(one)
                if len(there) == len(self.group.others):
                    parts -= 1
                    yield one.transfer.tensor, sorted(there, key=lambda a: a.transfer.peer)

    def push(self, into: Float32, *, step: int, tensor: int = 0) -> None:
        """What the workers push, added up; zero where nothing of any worker came."""
        bounds, workers = self.group.bounds, self.group.others
        rooms = {rank: np.zeros_like(into) for rank in workers}
        receives = [Receive(rank, room, tensor, bounds.gradients) for rank, room in rooms.items()]
        allowed = int(bounds.step * into.nbytes * len(workers))
        came = self.group.exchange(Orders(step, TransferPhase.PUSH, (), receives, allowed))
        parts = [(rooms[rank], came[rank].flags) for rank in workers]
        add_up(parts, self.group.endpoint.tuning.packet_values, into)

    def pull(self, values: Float32, *, step: int, tensor: int = 0) -> None:
        """Hand the values to all workers."""
        sends = [Send(rank, values, tensor) for rank in self.group.others]
        self.group.exchange(Orders(step, TransferPhase.PULL, sends))

    def settle(self) -> None:
        """All that was handed out has arrived."""
        self.group.endpoint.settle()


@dataclass
class PushPullWorker:
    """A worker's half, the other of `Server`."""

    group: WireGroup
    server: int = 0
    part_packets: int = PACKETS

    def step(
        self, gradient: Float32, into: Float32, *, step: int, layers: Layers | None = None
    ) -> None:
        """Push the gradient and pull the parameters, each part as soon as the server has it. Leave
        the gradient as it is until the next step has ended."""
        parts = _parts(self.group, len(gradient), self.part_packets)
        self._push(gradient, parts, layers or Layers(len(gradient)), step)
        share = self.group.bounds.parameters
        receives = [
            Receive(self.server, into[part], number, parts.budget(part, share))
            for number, part in enumerate(parts)
        ]
        allowed = int(share * into.nbytes)
        self.group.endpoint.post(Orders(step, TransferPhase.PULL, (), receives, allowed))
        left = len(parts)
        while left:
            left -= len(self.group.wait())

    def _push(self, gradient: Float32, parts: Parts, layers: Layers, step: int) -> None:
        marks = self.group.marks(gradient, layers)
        sends = [
            Send(
                self.server, gradient[part], number, layers.at(part.start),
                marks.of(parts.packets_of(part)),
            )
            for number, part in enumerate(parts)
        ]  # fmt: skip
        self.group.endpoint.post(Orders(step, TransferPhase.PUSH, sends))

    def push(
        self, values: Float32, *, step: int, tensor: int = 0, layers: Layers | None = None
    ) -> None:
        where = layers or Layers(len(values))
        marks = self.group.marks(values, where)
        sends = [Send(self.server, values, tensor, where.at(0), marks)]
        self.group.exchange(Orders(step, TransferPhase.PUSH, sends))

    def pull(self, into: Float32, *, step: int, tensor: int = 0) -> None:
        """`into` holds the values of the step before, which stay where newer ones are lost."""
        receives = [Receive(self.server, into, tensor, self.group.bounds.parameters)]
        self.group.exchange(Orders(step, TransferPhase.PULL, (), receives))

    def settle(self) -> None:
        """All that was pushed has arrived."""
        self.group.endpoint.settle()


def _parts(group: WireGroup, values: int, packets: int) -> Parts:
    return Parts(values, group.endpoint.tuning.packet_values, packets)
