"""Collective algorithms, one a file. `ALGORITHMS` finds each by name; `choose` picks one."""

from paceline.cost.collectives.algorithm import Algorithm, Call, Round
from paceline.cost.collectives.all_to_all import AllToAll
from paceline.cost.collectives.chain import Chain
from paceline.cost.collectives.choice import ALGORITHMS, GLOO, NCCL, Library, choose
from paceline.cost.collectives.closed import RoundCost, closed_ns, link_bytes, round_costs
from paceline.cost.collectives.double_tree import DoubleTree
from paceline.cost.collectives.gloo import Gloo
from paceline.cost.collectives.halving_doubling import HalvingDoubling
from paceline.cost.collectives.hierarchical import Hierarchical
from paceline.cost.collectives.multi_ring import MultiRing
from paceline.cost.collectives.on_machine import gloo_on
from paceline.cost.collectives.parameter_server import ParameterServer
from paceline.cost.collectives.point_to_point import PointToPoint
from paceline.cost.collectives.ring import Ring

__all__ = [
    "ALGORITHMS",
    "GLOO",
    "NCCL",
    "Algorithm",
    "AllToAll",
    "Call",
    "Chain",
    "DoubleTree",
    "Gloo",
    "HalvingDoubling",
    "Hierarchical",
    "Library",
    "MultiRing",
    "ParameterServer",
    "PointToPoint",
    "Ring",
    "Round",
    "RoundCost",
    "choose",
    "closed_ns",
    "gloo_on",
    "link_bytes",
    "round_costs",
]
