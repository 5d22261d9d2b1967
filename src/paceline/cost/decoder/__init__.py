"""How long the parts of a described decoder take on a cluster, without a profile.

    site = site_of(cluster, ranks=64)
    prices = Prices(site)
    prices.chunk(job, 0).forward_ns       # one chunk of layers, one micro-batch, one rank

Kernels by `cost.forecast`, from the device's data sheet; collectives by its fitted model within a
host or NVLink domain, and by the network's rate between hosts.
"""

from paceline.cost.decoder.blocks import Chunk, Prices
from paceline.cost.decoder.exchanges import Ring, exchange_ns
from paceline.cost.decoder.kernels import Kernels
from paceline.cost.decoder.site import Site, site_of

__all__ = ["Chunk", "Kernels", "Prices", "Ring", "Site", "exchange_ns", "site_of"]
