"""Messages that wait for messages, over shared links: when does each start and end?

`flows_ns` gives one collective alone the time that its messages take so; the closed form is judged
by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np

from paceline.cluster import Network
from paceline.cost.collectives import Algorithm, Call, Library, Round
from paceline.cost.errors import CostError
from paceline.cost.flows.sharing import SharedLinks
from paceline.cost.flows.table import Flow, FlowTable
from paceline.engine import native
from paceline.graph.graph import Int32, Int64


@dataclass(frozen=True, eq=False)
class Messages:
    """Flows, what each waits for (predecessors in CSR form), and the earliest each may go."""

    table: FlowTable
    dep_ptr: Int64
    dep_src: Int32
    release_ns: Int64


@dataclass(frozen=True, eq=False)
class Course:
    """When each message starts and ends."""

    start_ns: Int64
    end_ns: Int64
    events: int  # begins and ends


def flows_ns(
    algorithm: Algorithm, call: Call, network: Network, workers: Sequence[int], library: Library
) -> float:
    """Nanoseconds a collective takes as messages that share links."""
    if call.members < 2:
        return library.call_ns
    told = library if algorithm.stalls else replace(library, stall_ns=0.0)
    made = messages_of(algorithm.rounds(call), network, workers, told)
    return library.call_ns + float(simulate(made).end_ns.max())


def simulate(made: Messages, *, reference: bool = False) -> Course:
    """The course of all messages, by the native core where it was built."""
    core = None if reference else native()
    if core is None:
        found = _simulate(made)
    else:
        found = Course(
            *core.simulate_flows(made.table.native, made.dep_ptr, made.dep_src, made.release_ns)
        )
    if len(made.table) and found.end_ns.min() < 0:
        stuck = int(np.argmin(found.end_ns))
        raise CostError(f"message {stuck} can never start: messages wait for each other in a ring")
    return found


def messages_of(
    rounds: Sequence[Round], network: Network, workers: Sequence[int], library: Library
) -> Messages:
    """All messages of a collective: each waits for what its sender sent and received before."""
    flows: list[Flow] = []
    waits: list[list[int]] = []
    last: dict[int, list[int]] = {}  # member -> messages of the round it took part in last
    for step in (one for one in rounds for _ in range(one.repeat)):
        touched: dict[int, list[int]] = {}
        for s, d, size in zip(step.src.tolist(), step.dst.tolist(), step.size_bytes.tolist()):
            waits.append(last.get(s, []))
            touched.setdefault(s, []).append(len(flows))
            touched.setdefault(d, []).append(len(flows))
            flows.append(_message(network, workers[s], workers[d], size, step, library))
        last |= touched
    counts = np.array([len(w) for w in waits], np.int64)
    return Messages(
        FlowTable.of(flows, network.bytes_per_s),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.array([src for w in waits for src in w], np.int32),
        np.zeros(len(flows), np.int64),
    )


def _message(
    network: Network, src: int, dst: int, size: float, step: Round, library: Library
) -> Flow:
    path = network.path(src, dst)
    tail = library.message_ns + network.path_latency_ns(src, dst)
    if step.reduced:
        tail += library.reduce_ns(size)
    if size and library.stall_ns:
        alone_ns = max((size / network.bytes_per_s[link] for link in path), default=0.0) * 1e9
        tail = max(tail, library.stall_ns - alone_ns)
    return Flow(size, dict.fromkeys(path, 1.0), round(tail))


def _simulate(made: Messages) -> Course:
    """The same in plain Python."""
    count, ptr, src = len(made.table), made.dep_ptr.tolist(), made.dep_src.tolist()
    links, after = SharedLinks(made.table), [list[int]() for _ in range(count)]
    missing, ready = np.diff(made.dep_ptr).tolist(), made.release_ns.tolist()
    for message in range(count):
        for source in src[ptr[message] : ptr[message + 1]]:
            after[source].append(message)
    later = [(ready[m], m) for m in range(count) if not missing[m]]
    later.sort()
    start, end, events = [-1] * count, [-1] * count, 0
    while True:
        due = links.next_end()
        times = [t for t in (due, later[0][0] if later else None) if t is not None]
        if not times:
            return Course(np.array(start, np.int64), np.array(end, np.int64), events)
        now = min(times)
        for message in links.take_ended(now) if due == now else ():
            end[message], events = now, events + 1
            for follower in after[message]:
                ready[follower] = max(ready[follower], now)
                missing[follower] -= 1
                if not missing[follower]:
                    heappush(later, (ready[follower], follower))
        while later and later[0][0] == now:
            _, message = heappop(later)
            start[message], events = now, events + 1
            links.begin(message, now)
        links.settle(now)
