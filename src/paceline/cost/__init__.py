"""How long it would take: compute, collectives, memory, and what each price rests on."""

from paceline.cost.basis import SPREAD, Price
from paceline.cost.calls import Calls, calls_of
from paceline.cost.carried import Carried, carried
from paceline.cost.collectives import ALGORITHMS, GLOO, NCCL, Library
from paceline.cost.compute import Efficiency
from paceline.cost.curve import Curve
from paceline.cost.errors import CostError
from paceline.cost.price import Prices, messages_of, price, prices
from paceline.cost.rates import Carrier, Fidelity, Rates
from paceline.graph.kinds import Basis

__all__ = [
    "ALGORITHMS",
    "GLOO",
    "NCCL",
    "SPREAD",
    "Basis",
    "Calls",
    "Carried",
    "Carrier",
    "CostError",
    "Curve",
    "Efficiency",
    "Fidelity",
    "Library",
    "Price",
    "Prices",
    "Rates",
    "calls_of",
    "carried",
    "messages_of",
    "price",
    "prices",
]
