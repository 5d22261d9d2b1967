"""Closed form of any algorithm: each round lasts as long as its slowest path and fullest link.

A round takes message_ns + (longest latency of a path) + max over links of bytes / rate, and where
the receiver adds, bytes / reduce rate. On equal links without sharing this is exactly the formula
in each algorithm's docstring.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from paceline.cluster.network import Network
from paceline.cost.collectives.algorithm import Algorithm, Call, Round
from paceline.cost.collectives.choice import Library


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
    crowd = _neighbours(network, workers, shifts)
    total = library.call_ns
    for step in algorithm.rounds(call):
        total += step.repeat * _round_ns(step, network, workers, library, crowd)
    return total


def link_bytes(
    algorithm: Algorithm, call: Call, network: Network, workers: Sequence[int]
) -> NDArray[np.float64]:
    """Bytes that the collective puts on each link of the network."""
    found = np.zeros(len(network.links))
    for step in algorithm.rounds(call) if call.members > 1 else ():
        for link, load in _load(step, network, workers).items():
            found[link] += step.repeat * load
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


def _round_ns(
    step: Round,
    network: Network,
    workers: Sequence[int],
    library: Library,
    crowd: Sequence[Sequence[int]],
) -> float:
    own = _load(step, network, workers)
    load = dict(own)
    for others in crowd:
        for link, size in _load(step, network, others).items():
            if link in load:
                load[link] += size
    slowest = max((size / network.bytes_per_s[link] for link, size in load.items()), default=0.0)
    latency = max(network.path_latency_ns(workers[s], workers[d]) for s, d in _pairs(step))
    got = float(np.bincount(step.dst, step.size_bytes).max())
    add = library.reduce_ns(got) if step.reduced else 0.0
    return library.message_ns + latency + float(slowest) * 1e9 + add


def _load(step: Round, network: Network, workers: Sequence[int]) -> dict[int, float]:
    """Bytes on each link that one round uses."""
    found: dict[int, float] = {}
    for (s, d), size in zip(_pairs(step), step.size_bytes.tolist()):
        for link in network.path(workers[s], workers[d]):
            found[link] = found.get(link, 0.0) + size
    return found


def _pairs(step: Round) -> list[tuple[int, int]]:
    return list(zip(step.src.tolist(), step.dst.tolist()))
