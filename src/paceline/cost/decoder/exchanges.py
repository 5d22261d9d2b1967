"""Collectives of equal ranks: the fitted model of a domain, the network between hosts, or both.

A ring over h hosts with m members each crosses every host's border once for each of its m NICs, so
each NIC carries (g - 1) / g of the bytes over m, while links in the host carry (g - 1) / g of them;
both happen at once. An all-to-all sends (g - m) / g of each rank's bytes through its own NIC.
"""

from typing import Final

from paceline.cost.decoder.over_gloo import gloo_ns
from paceline.cost.decoder.site import Ring, Site
from paceline.cost.domain import Domain
from paceline.cost.errors import CostError
from paceline.graph.kinds import Collective

_NIC_SHARE: Final = 0.85
"""Of a NIC's line rate that large messages of NCCL reach (not measured here)."""
_LAUNCH_NS: Final = 12_000.0
_HOP_NS: Final = 4_000.0
"""A ring's step from host to host beside the link's own latency (not measured here)."""
_PCIE_BYTES_PER_S: Final = 12e9
"""Of a device whose sheet names no link: PCIe 3.0 with 16 lanes, as its copies reach it."""


def exchange_ns(
    site: Site, domain: Domain, call: Collective, size_bytes: float, ring: Ring
) -> float:
    """From the last member's arrival to the end; `size_bytes` are those of the larger buffer."""
    if ring.ranks < 2 or size_bytes <= 0:
        return 0.0
    if site.network is not None:
        return gloo_ns(site, site.network, call, size_bytes, ring)
    inside = ring.inside(site)
    if call is Collective.POINT_TO_POINT:
        return _message_ns(site, size_bytes, crosses=inside == 1)
    if inside == ring.ranks:
        return _domain_ns(domain, call, size_bytes, inside)
    if site.nic_bytes_per_s <= 0:
        raise CostError("the cluster's hosts have no link to one another; give `link`")
    hosts = -(-ring.ranks // inside)
    if call is Collective.ALL_TO_ALL:
        sent = size_bytes * (ring.ranks - inside) / ring.ranks * ring.crossing
        between = sent / (site.nic_bytes_per_s * _NIC_SHARE) * 1e9
    else:
        ways = 2 if call is Collective.ALL_REDUCE else 1
        sent = ways * size_bytes * (ring.ranks - 1) / ring.ranks / inside
        between = sent / (site.nic_bytes_per_s * _NIC_SHARE) * 1e9
        between += ways * (hosts - 1) * (_HOP_NS + site.latency_ns)
    within = _domain_ns(domain, call, size_bytes, inside) if inside > 1 else 0.0
    return _LAUNCH_NS + max(between, within)


def _message_ns(site: Site, size_bytes: float, *, crosses: bool) -> float:
    inside = site.fabric_bytes_per_s or _PCIE_BYTES_PER_S
    rate = site.nic_bytes_per_s if crosses else inside
    if rate <= 0:
        raise CostError("the cluster's hosts have no link to one another; give `link`")
    return _LAUNCH_NS + site.latency_ns + size_bytes / (rate * _NIC_SHARE) * 1e9


def _domain_ns(domain: Domain, call: Collective, size_bytes: float, ranks: int) -> float:
    """Among the GPUs of one host."""
    if not domain.sheet.link_bytes_per_s:
        ways = 2 if call is Collective.ALL_REDUCE else 1
        return _LAUNCH_NS + ways * size_bytes * (ranks - 1) / ranks / _PCIE_BYTES_PER_S * 1e9
    return domain.ns(call, size_bytes, ranks)
