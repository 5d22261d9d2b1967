"""Collectives of processors: gloo's own algorithms over the cluster's links, as torch runs them."""

from math import ceil

from paceline.cluster import Network
from paceline.cost.collectives import GLOO, Call, choose, closed_ns
from paceline.cost.decoder.site import Ring
from paceline.graph.kinds import Collective


def gloo_ns(network: Network, call: Collective, size_bytes: float, ring: Ring) -> float:
    """From the last member's arrival to the end, while like groups do the same beside it."""
    workers = tuple(ring.stride * member for member in range(ring.ranks))
    hosts = tuple(network.cluster.place_of(worker)[0] for worker in workers)
    asked = Call(call, ceil(size_bytes), hosts)
    return closed_ns(choose(GLOO, asked), asked, network, workers, GLOO, range(ring.stride))
