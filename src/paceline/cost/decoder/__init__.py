"""How long the parts of a described decoder take on a cluster, without a profile.

    site = site_of(cluster, ranks=64)
    prices = DecoderPrices(site)
    prices.chunk(job, 0).forward_ns       # one chunk of layers, one micro-batch, one rank

Kernels by `cost.forecast`, from the device's data sheet; collectives by its fitted model within a
host or NVLink domain, and by the network's rate between hosts. On processors by their rates, and by
gloo's algorithms over the cluster's links. What was recorded (`Timed`) is kept as it is.
"""

from paceline.cost.decoder.blocks import Chunk, DecoderPrices
from paceline.cost.decoder.exchanges import exchange_ns
from paceline.cost.decoder.kernels import Kernels
from paceline.cost.decoder.over_gloo import turns
from paceline.cost.decoder.site import Ring, Site, site_of
from paceline.cost.decoder.timed import Timed

__all__ = [
    "Chunk",
    "DecoderPrices",
    "Kernels",
    "Ring",
    "Site",
    "Timed",
    "exchange_ns",
    "site_of",
    "turns",
]
