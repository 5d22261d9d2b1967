"""A parameter server over the transport: workers push gradients, and pull parameters.

Each way has a bound of its own. A pulled value stands for all workers, so fewer of them may be lost
than of pushed ones; the worker then keeps what it pulled the step before.
"""

from dataclasses import dataclass

import numpy as np

from paceline.wire.endpoint import Phase, Receive, Send
from paceline.wire.group import Float32, Group, Layers, add_up


@dataclass
class Server:
    """The server's half. It contributes nothing itself: `group.others` are its workers."""

    group: Group

    def push(self, into: Float32, *, step: int, tensor: int = 0) -> None:
        """What the workers push, added up; zero where nothing of any worker came."""
        bounds, workers = self.group.bounds, self.group.others
        rooms = {rank: np.zeros_like(into) for rank in workers}
        receives = [Receive(rank, room, tensor, bounds.gradients) for rank, room in rooms.items()]
        allowed = int(bounds.step * into.nbytes * len(workers))
        came = self.group.exchange(step, Phase.PUSH, [], receives, allowed)
        parts = [(rooms[rank], came[rank].flags) for rank in workers]
        add_up(parts, self.group.endpoint.tuning.packet_values, into)

    def pull(self, values: Float32, *, step: int, tensor: int = 0) -> None:
        """Hand the values to all workers."""
        sends = [Send(rank, values, tensor) for rank in self.group.others]
        self.group.exchange(step, Phase.PULL, sends, [])


@dataclass
class Worker:
    """A worker's half."""

    group: Group
    server: int = 0

    def push(
        self, values: Float32, *, step: int, tensor: int = 0, layers: Layers | None = None
    ) -> None:
        where = layers or Layers(len(values))
        marks = self.group.marks(values, where)
        sends = [Send(self.server, values, tensor, where.at(0), marks)]
        self.group.exchange(step, Phase.PUSH, sends, [])

    def pull(self, into: Float32, *, step: int, tensor: int = 0) -> None:
        """`into` holds the values of the step before, which stay where newer ones are lost."""
        receives = [Receive(self.server, into, tensor, self.group.bounds.parameters)]
        self.group.exchange(step, Phase.PULL, [], receives)
