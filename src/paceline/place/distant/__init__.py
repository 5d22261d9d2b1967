"""Pipelines over machines that are far apart: order, cuts, micro-batches, and what passes."""

from paceline.place.distant.planning import (
    DistantPlan,
    Search,
    best_cuts,
    orders,
    plan_distant,
)
from paceline.place.distant.pricing import priced_in_lab, reordered
from paceline.place.distant.rates import Rates, neighbourhoods

__all__ = [
    "DistantPlan",
    "Rates",
    "Search",
    "best_cuts",
    "neighbourhoods",
    "orders",
    "plan_distant",
    "priced_in_lab",
    "reordered",
]
