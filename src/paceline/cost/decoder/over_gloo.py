"""Collectives of processors: gloo's own algorithms over the cluster's links, as torch runs them.

Where ranks share the cores of one machine, gloo takes the times that were measured there.
"""

from math import ceil

from paceline.cluster import Network
from paceline.cost.collectives import GLOO, Call, Library, choose, closed_ns, gloo_on
from paceline.cost.collectives.volume import sent_share
from paceline.cost.decoder.site import Ring, Site
from paceline.graph.kinds import Collective


def gloo_ns(site: Site, network: Network, call: Collective, size_bytes: float, ring: Ring) -> float:
    """From the last member's arrival to the end, while like groups do the same beside it."""
    library, asked = _library(site), _asked(network, call, size_bytes, ring)
    algorithm, like = choose(library, asked), range(ring.stride)
    return closed_ns(algorithm, asked, network, _workers(ring), library, like)


def cores_ns(site: Site, call: Collective, size_bytes: float, ring: Ring) -> float:
    """What a collective's bytes take of the cores that all ranks share, where all do the same at
    once and nothing else; 0 where they share none."""
    if site.machine is None:
        return 0.0
    reduced = call is Collective.REDUCE_SCATTER  # which gloo runs as a whole all-reduce
    sent = size_bytes * sent_share(Collective.ALL_REDUCE if reduced else call, ring.ranks)
    return site.ranks * sent * site.machine.cpu_ns_per_byte / site.machine.cores


def turns(site: Site, call: Collective, ring: Ring) -> int:
    """How many messages of a call follow one another; each waits for its turn on shared cores."""
    if site.network is None or ring.ranks < 2:
        return 0
    asked = _asked(site.network, call, 1.0, ring)
    return sum(each.repeat for each in choose(_library(site), asked).rounds(asked))


def _library(site: Site) -> Library:
    return GLOO if site.machine is None else gloo_on(site.machine)


def _asked(network: Network, call: Collective, size_bytes: float, ring: Ring) -> Call:
    hosts = tuple(network.cluster.place_of(worker)[0] for worker in _workers(ring))
    return Call(call, ceil(size_bytes), hosts)


def _workers(ring: Ring) -> tuple[int, ...]:
    return tuple(ring.stride * member for member in range(ring.ranks))
