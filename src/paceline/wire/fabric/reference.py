"""The packet simulator in plain Python: what `native/packets*` computes, event for event.

Things that happen at one nanosecond happen in the order in which they were foreseen. A port serves
its queue one packet at a time; a packet that has left arrives one hop later at the next port's
queue, or at its host.
"""

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from paceline.wire.fabric.completions import Completions, Counts
from paceline.wire.fabric.fabric import HEADER_BYTES, PRIORITIES, Fabric, Flow
from paceline.wire.fabric.policy import Policy, Routing, Transport
from paceline.wire.fabric.reference_paced import PacedFlow
from paceline.wire.fabric.reference_packets import Event, Kind, Packet, drawn, mixed, of_chance
from paceline.wire.fabric.reference_queues import Pool, Queue, RemainingQueue
from paceline.wire.fabric.reference_windowed import WindowedFlow

NIC_PACKETS = 2  # a paced flow waits while its NIC holds more
LOSSES = 0x105505  # added to the seed for the chance of packets on cables


class Simulation:
    """One run. Flows act on it by `send` and `at`."""

    def __init__(self, fabric: Fabric, flows: Sequence[Flow], policy: Policy) -> None:
        self.fabric, self.policy, self.now = fabric, policy, 0
        self._agenda: list[tuple[int, int, Event, Any]] = []
        self._foreseen = self._events = self._crossed = 0
        self._counts = {"sent": 0, "arrived": 0}
        self._dropped = [0, 0, 0]
        pools = [Pool(fabric.shared_bytes) for _ in range(fabric.leaves + fabric.spines)]
        queue = RemainingQueue if policy.transport is Transport.PFABRIC else Queue
        self.queues = [
            queue(fabric, policy, p, pools[s] if (s := fabric.switch_of(p)) >= 0 else None)
            for p in range(fabric.ports)
        ]
        self._turn = [mixed(policy.seed, host) for host in range(fabric.hosts)]
        self._waiting = [
            [deque[PacedFlow]() for _ in range(PRIORITIES)] for _ in range(fabric.hosts)
        ]
        kind = PacedFlow if policy.transport is Transport.BOUNDED else WindowedFlow
        self.flows: list[WindowedFlow | PacedFlow] = [
            kind(self, number, flow) for number, flow in enumerate(flows)
        ]
        self.open = len(flows)

    def run(self, until_ns: int) -> Completions:
        for flow in self.flows:
            self.at(flow.flow.start_ns, Event.START, flow)
        while self.open and self._agenda:
            if self._agenda[0][0] > until_ns:
                self.now = until_ns
                break
            self.now, _, event, item = heappop(self._agenda)
            self._events += 1
            _DO[event](self, item)
        return self._completions()

    def at(self, when_ns: int, event: Event, item: object) -> None:
        self._foreseen += 1
        heappush(self._agenda, (when_ns, self._foreseen, event, item))

    def data_bytes(self, flow: Flow, seq: int) -> int:
        """Bytes of a flow's packet on the wire."""
        payload = self.fabric.payload_bytes
        return min(payload, flow.size_bytes - seq * payload) + HEADER_BYTES

    def waits_for_nic(self, flow: PacedFlow) -> bool:
        """A paced flow whose NIC has packets enough waits; the NIC wakes it, in turn."""
        waits = self.queues[flow.flow.src].total > NIC_PACKETS * self.fabric.packet_bytes
        if waits:
            self._waiting[flow.flow.src][flow.flow.priority].append(flow)
        return waits

    def wake(self, host: int) -> None:
        waiting = next((w for w in self._waiting[host] if w), None)
        if waiting and self.queues[host].total <= NIC_PACKETS * self.fabric.packet_bytes:
            self.at(self.now, Event.PACE, waiting.popleft())

    def send(self, packet: Packet, src: int, dst: int) -> None:
        """Put a packet into its host's queue."""
        self._counts["sent"] += 1
        packet.ports = self.fabric.path(src, dst, self._spine(packet.flow, src))
        self._enqueue(packet)

    def _spine(self, flow: int, src: int) -> int:
        if not self.fabric.spines:
            return 0
        if self.policy.routing is Routing.ECMP:
            return mixed(self.policy.seed, flow) % self.fabric.spines
        self._turn[src] += 1
        return (self._turn[src] - 1) % self.fabric.spines

    def _enqueue(self, packet: Packet) -> None:
        queue = self.queues[packet.ports[packet.hop]]
        for lost in queue.put(packet, self.now):
            self._drop(lost)
        if queue.waking or not queue.total:
            return
        if self.now >= queue.free_at:
            self._transmit(queue)
        else:
            queue.waking = True
            self.at(queue.free_at, Event.FREE, queue)

    def _drop(self, packet: Packet) -> None:
        self._dropped[2 if packet.kind is not Kind.DATA else packet.important] += 1

    def _transmit(self, queue: Queue) -> None:
        packet = queue.take(self.now)
        queue.free_at = self.now + self.fabric.sending_ns(packet.size, queue.port)
        self.at(queue.free_at + self.fabric.hop_ns, Event.ARRIVAL, packet)
        if queue.total:
            queue.waking = True
            self.at(queue.free_at, Event.FREE, queue)
        if queue.port < self.fabric.hosts:
            self.wake(queue.port)

    def _free(self, queue: Queue) -> None:
        queue.waking = False
        if queue.total:
            self._transmit(queue)

    def _arrive(self, packet: Packet) -> None:
        packet.hop += 1
        self._crossed += 1
        chance = drawn(self.policy.seed + LOSSES, self._crossed)
        if chance < of_chance(self.fabric.loss):
            self._drop(packet)
            return
        if packet.hop < len(packet.ports):
            self._enqueue(packet)
            return
        self._counts["arrived"] += 1
        self.flows[packet.flow].arrived(packet)

    def _completions(self) -> Completions:
        for queue in self.queues:
            queue.account(self.now)
        under_way = self._counts["sent"] - self._counts["arrived"] - sum(self._dropped)
        counts = Counts(
            self._events,
            self._counts["sent"],
            self._counts["arrived"],
            self._dropped[0],
            self._dropped[1],
            self._dropped[2],
            sum(queue.marked for queue in self.queues),
            under_way,
            self.now,
        )
        return Completions(
            _column(f.flow.start_ns for f in self.flows),
            _column(f.end_ns for f in self.flows),
            _column(f.missing for f in self.flows),
            _column(f.sent for f in self.flows),
            _column(q.peak for q in self.queues),
            _column(q.byte_ns for q in self.queues),
            counts,
        )


def _column(values: Any) -> Any:
    return np.array(list(values), np.int64)


_DO: dict[Event, Callable[[Simulation, Any], None]] = {
    Event.START: lambda run, flow: flow.start(),
    Event.ARRIVAL: Simulation._arrive,
    Event.FREE: Simulation._free,
    Event.PACE: lambda run, flow: flow.pace(),
    Event.TIMER: lambda run, flow: flow.timer(),
    Event.CHECK: lambda run, flow: flow.check(),
}
