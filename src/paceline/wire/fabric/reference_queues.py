"""The queues of ports: strict priorities with selective drop and marks, and pFabric's.

A packet's backlog is what would be sent before it: the queued bytes of its priority and of those
above. A full buffer drops; above `drop_bytes` of backlog so are unimportant packets; above
`mark_bytes` packets that can be marked are. A host's NIC has memory for all, and never marks.
"""

from collections import deque
from dataclasses import dataclass

from paceline.wire.fabric.fabric import PRIORITIES, Fabric
from paceline.wire.fabric.policy import Policy
from paceline.wire.fabric.reference_packets import Kind, Packet


@dataclass(slots=True)
class Pool:
    """The memory that a switch's ports share; none where `size` is 0."""

    size: int
    used: int = 0


class Queue:
    """Strict priorities; within one, first come, first served."""

    def __init__(self, fabric: Fabric, policy: Policy, port: int, pool: Pool | None) -> None:
        self.port, self.total, self.free_at, self.waking = port, 0, 0, False
        self.peak = self.byte_ns = self.marked = self._since = 0
        self._own, self._pool, self._policy = fabric.buffer_bytes, pool, policy
        self._waiting = [deque[Packet]() for _ in range(PRIORITIES)]
        self._bytes = [0] * PRIORITIES

    def put(self, packet: Packet, now_ns: int) -> list[Packet]:
        """Queue it; what had to be dropped."""
        if self._pool is not None and (self._unwelcome(packet) or packet.size > self.room):
            return [packet]
        self._mark(packet)
        self._waiting[packet.priority].append(packet)
        self._bytes[packet.priority] += packet.size
        self._grow(packet.size, now_ns)
        return []

    def take(self, now_ns: int) -> Packet:
        priority = next(p for p in range(PRIORITIES) if self._waiting[p])
        packet = self._waiting[priority].popleft()
        self._bytes[priority] -= packet.size
        self._grow(-packet.size, now_ns)
        return packet

    @property
    def room(self) -> int:
        """Bytes that fit. Of shared memory a port may hold as much as is still free."""
        assert self._pool is not None
        if self._pool.size:
            return self._pool.size - self._pool.used - self.total
        return self._own - self.total

    def account(self, now_ns: int) -> None:
        self.byte_ns += self.total * (now_ns - self._since)
        self._since = now_ns

    def _backlog(self, packet: Packet) -> int:
        return sum(self._bytes[: packet.priority + 1]) + packet.size

    def _mark(self, packet: Packet) -> None:
        limit = self._policy.mark_bytes
        above = self._pool is not None and 0 < limit < self._backlog(packet)
        if above and packet.markable and not packet.marked:
            packet.marked = True
            self.marked += 1

    def _unwelcome(self, packet: Packet) -> bool:
        limit = self._policy.drop_bytes
        minor = packet.kind is Kind.DATA and not packet.important
        return minor and limit > 0 and self._backlog(packet) > limit

    def _grow(self, size: int, now_ns: int) -> None:
        self.account(now_ns)
        self.total += size
        if self._pool is not None:
            self._pool.used += size
        self.peak = max(self.peak, self.total)


class RemainingQueue(Queue):
    """pFabric: the flow with the least remaining goes first, its packets in the order in which
    they came; a full buffer drops packets of the flow with the most remaining."""

    def __init__(self, fabric: Fabric, policy: Policy, port: int, pool: Pool | None) -> None:
        super().__init__(fabric, policy, port, pool)
        self._all: list[Packet] = []

    def put(self, packet: Packet, now_ns: int) -> list[Packet]:
        dropped: list[Packet] = []
        while self._pool is not None and packet.size > self.room:
            worst = max(
                range(len(self._all)), key=lambda i: (self._all[i].remaining, i), default=-1
            )
            if worst < 0 or self._all[worst].remaining <= packet.remaining:
                return [*dropped, packet]
            dropped.append(self._all.pop(worst))
            self._grow(-dropped[-1].size, now_ns)
        self._mark(packet)
        self._all.append(packet)
        self._grow(packet.size, now_ns)
        return dropped

    def take(self, now_ns: int) -> Packet:
        least = min(range(len(self._all)), key=lambda i: (self._all[i].remaining, i))
        flow = self._all[least].flow
        packet = self._all.pop(next(i for i, p in enumerate(self._all) if p.flow == flow))
        self._grow(-packet.size, now_ns)
        return packet

    def _backlog(self, packet: Packet) -> int:
        return self.total + packet.size
