"""Replay of messages over shaped links between workers that share the cores of one machine.

That is what the lab is. A shaped link is a token bucket: after a rest it passes `burst_bytes` at
once, from then on its rate. Its sender keeps up to `window_bytes` of each message in its queue,
behind which others wait; then messages under way share links max-min fairly. Each moves no faster
than one core at either end can, and takes processor time by the byte, before any work. A message
without bytes is a word of the transport: it waits in that queue, and nowhere else.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from paceline.cluster import Cluster
from paceline.cluster.network import Network
from paceline.errors import ReplayError
from paceline.graph import NONE, Graph, LaneKind, OpKind
from paceline.graph.graph import Int64
from paceline.graph.law import check_columns
from paceline.replay.cores import WORKS, Running, fair_shares
from paceline.replay.engine import checked_durations
from paceline.replay.reference import replay_reference
from paceline.replay.timeline import Timeline

FRAME_BYTES = 1514
"""A bucket that holds less than a frame is empty."""

MOST_LOAD = 0.95
"""Messages never take all of the cores: what they wait for has to run too."""

NOTHING_BYTES = 1e-3
"""What rounding alone has left of a message."""


@dataclass(frozen=True)
class SharedHost:
    """The machine that all workers and all links are on."""

    cores: float
    cpu_ns_per_byte: float  # of all cores, for a byte sent, forwarded and received
    burst_bytes: tuple[float, ...]  # of payload, by link of the cluster's `Network`
    message_ns: int = 0  # from asking for a message to its first byte
    late_ns: int = 0  # more where all cores work: who wakes for it waits for its turn
    window_bytes: float = 0.0  # of a message that its sender puts into the link's queue at once

    def __post_init__(self) -> None:
        least = min(self.message_ns, self.late_ns, self.window_bytes)
        if self.cores <= 0 or self.cpu_ns_per_byte <= 0 or least < 0:
            raise ReplayError(
                f"a shared machine has {self.cores} cores, {self.cpu_ns_per_byte} ns a byte and "
                f"{self.message_ns} ns a message; cores and ns a byte must be above zero"
            )


def replay_shaped(graph: Graph, cluster: Cluster, host: SharedHost) -> Timeline:
    """When every op runs; messages take their time from the cluster's links and the cores."""
    network = Network(cluster)
    if len(host.burst_bytes) != len(network.links):
        raise ReplayError(
            f"{len(host.burst_bytes)} bursts were given for {len(network.links)} links; give one "
            "for each link of Network(cluster)"
        )
    dur_ns = checked_durations(graph, graph.ops.dur_ns)
    check_columns(graph)
    pace = _ShapedPace(graph, network, host, dur_ns)
    return Timeline(graph, dur_ns, replay_reference(graph, pace))


def max_min(paths: Sequence[Sequence[int]], capacity: Sequence[float], most: float) -> list[float]:
    """Rates of flows that share links max-min fairly, none above `most`."""
    rates = [0.0] * len(paths)
    left = list(capacity)
    growing = set(range(len(paths)))
    while growing:
        users = [0] * len(left)
        for flow in growing:
            for link in paths[flow]:
                users[link] += 1
        more = min(
            [most - max(rates[f] for f in growing)]
            + [left[link] / n for link, n in enumerate(users) if n]
        )
        for flow in growing:
            rates[flow] += more
            for link in paths[flow]:
                left[link] -= more
        full = {
            link
            for link, n in enumerate(users)
            if n and math.isfinite(capacity[link]) and left[link] <= 1e-12 * capacity[link]
        }
        growing = {
            f for f in growing if rates[f] < most * (1 - 1e-12) and not full.intersection(paths[f])
        }
    return rates


@dataclass
class _Message:
    """Bytes under way; `begins` is when the first of them moves."""

    path: tuple[int, ...]
    left: float
    begins: int = 0
    members: list[int] = field(default_factory=list)
    rate: float = 0.0  # bytes a ns
    behind: float | None = None  # bytes before it in its sender's queue, once it is there

    def moves(self) -> bool:
        return self.behind is not None and self.behind <= NOTHING_BYTES

    def ended(self) -> bool:
        return self.moves() and self.left <= NOTHING_BYTES


class _ShapedPace:
    """The `Pace`: work on threads and messages on links."""

    def __init__(self, graph: Graph, network: Network, host: SharedHost, dur_ns: Int64) -> None:
        ops = graph.ops
        on_thread = graph.lanes.kind[ops.lane] == LaneKind.THREAD
        self._dur, self._host = dur_ns.tolist(), host
        self._wants = np.where(on_thread & np.isin(ops.kind, WORKS), 1.0, 0.0).tolist()
        self._instance = np.where(
            np.isin(ops.kind, (OpKind.SEND, OpKind.RECV)), ops.instance, NONE
        ).tolist()
        self._size = ops.size_bytes.tolist()
        self._paths = _paths(graph, network)
        self._capacity = [link.bytes_per_s / 1e9 for link in network.links]
        self._tokens = list(host.burst_bytes)
        self._most = 2 / host.cpu_ns_per_byte  # half the cost at either end, a core there
        self._running: dict[int, Running] = {}
        self._messages: dict[int, _Message] = {}
        self._asked: list[_Message] = []  # at this instant
        self._since = 0

    def begin(self, op: int, now_ns: int) -> None:
        instance = self._instance[op]
        if instance == NONE:
            self._running[op] = Running(float(self._dur[op]), now_ns)
            return
        if instance not in self._messages:
            self._messages[instance] = _Message(self._paths[instance], float(self._size[op]))
            self._asked.append(self._messages[instance])
        self._messages[instance].members.append(op)

    def settle(self, now_ns: int) -> None:
        self._advance(now_ns)
        busy = sum(self._wants[op] for op in self._running) >= round(self._host.cores)
        delay_ns = self._host.message_ns + (self._host.late_ns if busy else 0)
        for message in self._asked:
            message.begins = now_ns + (delay_ns if message.left else 0)
        self._asked.clear()
        self._queue(now_ns)
        moving = [m for m in self._messages.values() if m.moves() and m.left > NOTHING_BYTES]
        free = [
            rate if tokens < FRAME_BYTES else math.inf
            for rate, tokens in zip(self._capacity, self._tokens)
        ]
        for message, rate in zip(moving, max_min([m.path for m in moving], free, self._most)):
            message.rate = rate
        self._share_cores(now_ns, moving)

    def _queue(self, now_ns: int) -> None:
        """Messages whose first byte is due join the queue of their sender's link."""
        for message in self._messages.values():
            if message.begins > now_ns:
                continue
            others = [m for m in self._messages.values() if m.path[:1] == message.path[:1]]
            if message.behind is None:
                before = [other.left for other in others if other.behind is not None]
                message.behind = sum(min(self._host.window_bytes, left) for left in before)
            elif message.behind <= min(m.behind for m in others if m.behind is not None):
                message.behind = 0.0  # whoever was before it has gone; what is left is rounding

    def next_end(self) -> int | None:
        ends, used = [job.end() for job in self._running.values()], self._used()
        for message in self._messages.values():
            if message.begins > self._since:
                ends.append(message.begins)
            elif message.ended():
                ends.append(self._since)
            elif message.rate:
                ends.append(self._since + math.ceil(message.left / message.rate))
            elif message.behind and (rate := used[message.path[0]]):
                ends.append(self._since + math.ceil(message.behind / rate))
        return min([*ends, *self._emptied()], default=None)

    def take_ended(self, now_ns: int) -> list[int]:
        self._advance(now_ns)
        ended = [op for op, job in self._running.items() if job.end() <= now_ns]
        for op in ended:
            del self._running[op]
        for instance, message in list(self._messages.items()):
            if message.ended():
                ended += self._messages.pop(instance).members
        return sorted(ended)

    def _advance(self, now_ns: int) -> None:
        """Bytes that have moved since the rates were set, and what the buckets hold."""
        passed = now_ns - self._since
        self._since = now_ns
        used = self._used()
        for message in self._messages.values():
            message.left -= message.rate * passed
            if message.behind:
                message.behind = max(0.0, message.behind - used[message.path[0]] * passed)
        for link, rate in enumerate(self._capacity):
            held = self._tokens[link] + (rate - used[link]) * passed
            self._tokens[link] = min(self._host.burst_bytes[link], max(0.0, held))

    def _used(self) -> list[float]:
        used = [0.0] * len(self._capacity)
        for message in self._messages.values():
            for link in message.path:
                used[link] += message.rate
        return used

    def _emptied(self) -> list[int]:
        """When buckets run dry: rates change then."""
        return [
            self._since + max(1, math.ceil((tokens - FRAME_BYTES / 2) / (used - rate)))
            for tokens, used, rate in zip(self._tokens, self._used(), self._capacity)
            if tokens >= FRAME_BYTES and used > rate * (1 + 1e-9)
        ]

    def _share_cores(self, now_ns: int, moving: list[_Message]) -> None:
        """Messages first, and evenly from every core: the kernel works where a packet or a timer
        comes, whether another core is idle or not. Threads share what is left."""
        cores = self._host.cores
        load = self._host.cpu_ns_per_byte * sum(message.rate for message in moving)
        if load > cores * MOST_LOAD:
            for message in moving:
                message.rate *= cores * MOST_LOAD / load
        left = 1 - min(load / cores, MOST_LOAD)
        wants = [self._wants[op] for op in self._running]
        given = fair_shares(wants, cores)
        for job, want, got in zip(self._running.values(), wants, given):
            job.change(now_ns, left * got / want if want else 1.0)


def _paths(graph: Graph, network: Network) -> dict[int, tuple[int, ...]]:
    """Links of each message, by its instance."""
    ops = graph.ops
    ends = {
        kind: {int(ops.instance[op]): int(ops.rank[op]) for op in np.flatnonzero(ops.kind == kind)}
        for kind in (OpKind.SEND, OpKind.RECV)
    }
    return {
        instance: network.path(rank, ends[OpKind.RECV][instance])
        for instance, rank in ends[OpKind.SEND].items()
    }
