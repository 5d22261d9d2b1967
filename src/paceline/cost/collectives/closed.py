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
    algorithm: Algorithm, call: Call, network: Network, workers: Sequence[int], library: Library
) -> float:
    """Nanoseconds from the last member's arrival to the end. `workers` place the members."""
    if call.members < 2:
        return library.call_ns
    total = library.call_ns
    for step in algorithm.rounds(call):
        total += step.repeat * _round_ns(step, network, workers, library)
    return total


def link_bytes(
    algorithm: Algorithm, call: Call, network: Network, workers: Sequence[int]
) -> NDArray[np.float64]:
    """Bytes that the collective puts on each link of the network."""
    found = np.zeros(len(network.links))
    for step in algorithm.rounds(call) if call.members > 1 else ():
        found += step.repeat * _load(step, network, workers)
    return found


def _round_ns(step: Round, network: Network, workers: Sequence[int], library: Library) -> float:
    load = _load(step, network, workers)
    used = load > 0
    slowest = float((load[used] / network.bytes_per_s[used]).max()) if used.any() else 0.0
    latency = max(
        network.path_latency_ns(workers[s], workers[d]) for s, d in zip(step.src, step.dst)
    )
    add = 0.0
    if step.reduced and library.reduce_bytes_per_s:
        got = np.bincount(step.dst, step.size_bytes)
        add = float(got.max()) / library.reduce_bytes_per_s
    return library.message_ns + latency + (slowest + add) * 1e9


def _load(step: Round, network: Network, workers: Sequence[int]) -> NDArray[np.float64]:
    """Bytes on each link in one round."""
    found = np.zeros(len(network.links))
    for s, d, size in zip(step.src.tolist(), step.dst.tolist(), step.size_bytes.tolist()):
        for link in network.path(workers[s], workers[d]):
            found[link] += size
    return found
