"""How long it would take: compute, collectives, memory, and what each price rests on."""

from paceline.cost.basis import SPREAD, Basis, Price, priced
from paceline.cost.collectives import ALGORITHMS, GLOO, NCCL, Library
from paceline.cost.compute import Efficiency
from paceline.cost.curve import Curve
from paceline.cost.errors import CostError
from paceline.cost.price import Prices, Rates, price, prices

__all__ = [
    "ALGORITHMS",
    "GLOO",
    "NCCL",
    "SPREAD",
    "Basis",
    "CostError",
    "Curve",
    "Efficiency",
    "Library",
    "Price",
    "Prices",
    "Rates",
    "price",
    "priced",
    "prices",
]
