"""Prices that can be slid: what a call takes by the closed form on faster or slower links.

Links between hosts have a latency and a rate; both are multiplied, those inside hosts stay. Each
round takes a fixed time, its longest latency and its fullest link, so that a call is a fixed time
plus two functions, one of the factor on latency and one of that on the time of a byte (1 / rate).
Both are sums of maxima of straight lines: straight between a few points, at which another path or
link becomes the slowest. What a round takes at least counts with its bytes, at the latency that the
links have. Which algorithm a library takes depends on sizes alone, so it stays.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.cluster import Cluster, Network
from paceline.cost.calls import Calls
from paceline.cost.collectives import Library, choose
from paceline.cost.collectives.closed import RoundCost, round_costs
from paceline.cost.errors import CostError
from paceline.cost.price import told_ns
from paceline.cost.rates import Fidelity, Rates
from paceline.graph import Graph

Line = tuple[float, float]
"""ns at factor 0, and ns per 1 of the factor."""


@dataclass(frozen=True)
class Piece:
    """From a factor on: ns there, and ns more per 1 of the factor."""

    at: float
    ns: float
    slope: float


@dataclass(frozen=True)
class Slidable:
    """What one call takes, apart by what slides it."""

    fixed_ns: float
    latency: tuple[Piece, ...] = (Piece(0.0, 0.0, 0.0),)
    slowness: tuple[Piece, ...] = (Piece(0.0, 0.0, 0.0),)

    def ns(self, latency: float, rate: float) -> float:
        """With links between hosts of so many times the latency and the rate."""
        return self.fixed_ns + _along(self.latency, latency) + _along(self.slowness, 1 / rate)


def slidable(graph: Graph, cluster: Cluster, rates: Rates, calls: Calls) -> tuple[Slidable, ...]:
    """One a call. What tables of measurements tell stays as it is, whatever the links."""
    if rates.fidelity is Fidelity.FLOWS:
        raise CostError("prices of messages that share links cannot be slid; use the closed form")
    network, library = Network(cluster), rates.library_of(cluster)
    found = []
    for call, group in zip(calls.each, calls.groups):
        if (known := told_ns(rates, call, cluster)) is not None:
            found.append(Slidable(known[0]))
            continue
        shifts = graph.facts.siblings.get(graph.groups[group].axis, (0,))
        ranks = graph.groups[group].ranks
        costs = round_costs(choose(library, call), call, network, ranks, library, shifts)
        found.append(_slidable(list(costs), network, library))
    return tuple(found)


def _slidable(costs: Sequence[RoundCost], network: Network, library: Library) -> Slidable:
    inside = len(network.links) - 2 * len(network.routes.cables)
    return Slidable(
        library.call_ns + sum(cost.repeat * (cost.message_ns + cost.add_ns) for cost in costs),
        _sum((cost.repeat, envelope(_latencies(cost, network, inside))) for cost in costs),
        _sum((cost.repeat, envelope(_loads(cost, network, inside))) for cost in costs),
    )


def _latencies(cost: RoundCost, network: Network, inside: int) -> set[Line]:
    """Of each path: what is inside hosts, and what is between them."""
    ways, between = cost.ways, cost.ways.links >= inside
    ns = network.latency_ns[ways.links]
    parts = (
        np.bincount(ways.message[rows], ns[rows], ways.messages) for rows in (~between, between)
    )
    return set(zip(*(part.astype(np.float64).tolist() for part in parts)))


def _loads(cost: RoundCost, network: Network, inside: int) -> set[Line]:
    """Of each link: how long it takes for its bytes; and what the round takes at least beside."""
    others = cost.message_ns + cost.add_ns + cost.ways.latency_ns
    found: set[Line] = {(max(0.0, cost.least_ns - others), 0.0)}
    for link in np.flatnonzero(cost.ways.used).tolist():
        ns = float(cost.load[link]) / float(network.bytes_per_s[link]) * 1e9
        found.add((-cost.free_ns, ns) if link >= inside else (ns - cost.free_ns, 0.0))
    return found


def envelope(lines: Iterable[Line]) -> tuple[Piece, ...]:
    """The greatest of the lines at every factor from 0 on."""
    rest = sorted(set(lines), reverse=True)
    ns, slope = rest[0]
    found, at = [Piece(0.0, ns, slope)], 0.0
    while True:
        steeper = [(a, b) for a, b in rest if b > slope]
        if not steeper:
            return tuple(found)
        base = found[-1].ns - found[-1].at * slope
        crossing = [((base - a) / (b - slope), b, a) for a, b in steeper]
        at = max(at, min(crossing)[0])
        slope, ns = max((b, a) for x, b, a in crossing if x <= at)
        found.append(Piece(at, ns + slope * at, slope))


def _sum(parts: Iterable[tuple[int, tuple[Piece, ...]]]) -> tuple[Piece, ...]:
    """Functions added, each so many times."""
    some = list(parts)
    points = sorted({piece.at for _, pieces in some for piece in pieces} | {0.0})
    return tuple(
        Piece(
            at,
            sum(count * _along(pieces, at) for count, pieces in some),
            sum(count * _piece(pieces, at).slope for count, pieces in some),
        )
        for at in points
    )


def _along(pieces: tuple[Piece, ...], at: float) -> float:
    piece = _piece(pieces, at)
    return piece.ns + (at - piece.at) * piece.slope


def _piece(pieces: tuple[Piece, ...], at: float) -> Piece:
    return next(piece for piece in reversed(pieces) if piece.at <= at)
