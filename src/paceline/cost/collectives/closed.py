"""Closed form of any algorithm: each round lasts as long as its slowest path and fullest link.

A round takes message_ns + (longest latency of a path) + max over links of bytes / rate, and where
the receiver adds, bytes / reduce rate; where the algorithm stalls, stall_ns at least. On equal
links without sharing this is exactly the formula in each algorithm's docstring.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from paceline.cluster.network import Network
from paceline.cost.collectives.algorithm import Algorithm, Call, Round
from paceline.cost.collectives.choice import Library
from paceline.cost.collectives.ways import Loads, Ways, ways_of


@dataclass(frozen=True, eq=False)
class RoundCost:
    """One round, which happens `repeat` times: what its time is made of."""

    repeat: int
    message_ns: float
    add_ns: float  # until the receiver has added what it got
    ways: Ways
    load: Loads
    free_ns: float = 0.0  # worth of bytes that a link passes at once after a rest
    least_ns: float = 0.0

    def ns(self, network: Network) -> float:
        """Once."""
        used = self.ways.used
        slowest = (self.load[used] / network.bytes_per_s[used]).max(initial=0.0)
        carried = max(0.0, float(slowest) * 1e9 - self.free_ns)
        return max(self.least_ns, self.message_ns + self.ways.latency_ns + carried + self.add_ns)


def closed_ns(
    algorithm: Algorithm,
    call: Call,
    network: Network,
    workers: Sequence[int],
    library: Library,
    shifts: Sequence[int] = (0,),
) -> float:
    """Nanoseconds from the last member's arrival to the end. `workers` place the members.

    `shifts` name like groups that communicate at the same time, by how far their workers lie from
    these; those on the same hosts share links with it.
    """
    if call.members < 2:
        return library.call_ns
    total = library.call_ns
    for cost in round_costs(algorithm, call, network, workers, library, shifts):
        total += cost.repeat * cost.ns(network)
    return total


def round_costs(
    algorithm: Algorithm,
    call: Call,
    network: Network,
    workers: Sequence[int],
    library: Library,
    shifts: Sequence[int] = (0,),
) -> Iterator[RoundCost]:
    """What each round of a call between two members or more takes its time from, but for those
    that hide behind the call that follows."""
    crowd = _neighbours(network, workers, shifts)
    free_ns = 1e9 * library.burst_s * call.after_rest
    for step in algorithm.rounds(call):
        if call.followed and step.beside_next:
            continue
        least_ns = library.stall_ns if algorithm.stalls and step.size_bytes.any() else 0.0
        cost = _cost_of(step, network, workers, library, crowd)
        yield replace(cost, free_ns=free_ns, least_ns=least_ns) if free_ns or least_ns else cost


def link_bytes(
    algorithm: Algorithm, call: Call, network: Network, workers: Sequence[int]
) -> NDArray[np.float64]:
    """Bytes that the collective puts on each link of the network."""
    found = np.zeros(len(network.links))
    for step in algorithm.rounds(call) if call.members > 1 else ():
        found += step.repeat * ways_of(step, network, workers).load(step)
    return found


def _neighbours(
    network: Network, workers: Sequence[int], shifts: Sequence[int]
) -> list[Sequence[int]]:
    """Groups other than this one that share hosts with it; none where it stays on one host."""
    place = network.cluster.place_of
    hosts = {place(worker)[0] for worker in workers}
    if len(hosts) == 1:
        return []
    found: list[Sequence[int]] = []
    for shift in shifts:
        moved = [worker + shift for worker in workers]
        if shift and moved[-1] < network.cluster.workers and place(moved[0])[0] in hosts:
            found.append(moved)
    return found


def _cost_of(
    step: Round,
    network: Network,
    workers: Sequence[int],
    library: Library,
    crowd: Sequence[Sequence[int]],
) -> RoundCost:
    ways = ways_of(step, network, workers)
    load = ways.load(step)
    for others in crowd:
        load += np.where(ways.used, ways_of(step, network, others).load(step), 0.0)
    got = float(np.bincount(step.dst, step.size_bytes).max())
    add = library.reduce_ns(got) if step.reduced else 0.0
    return RoundCost(step.repeat, library.message_ns, add, ways, load)
