"""Programs of computation and communication: written once, scheduled, checked, and run.

Importing this room brings no torch; what runs programs (`autotune`, `overlapped_linear`, the back
ends) is imported on first use.
"""

from importlib import import_module
from typing import Any

from paceline.weave.backend import Backend, Executable, Peers
from paceline.weave.emit import Lanes, Site, as_graph, emit
from paceline.weave.interpreter import Result, distribute, interpret
from paceline.weave.language import (
    AllGather,
    AllReduce,
    AllToAll,
    Broadcast,
    Cast,
    Dropout,
    Ite,
    MatMul,
    Maximum,
    Minimum,
    MulAdd,
    Norm,
    ReduceAll,
    ReduceScatter,
    ReduceTo,
    Repeat,
    Send,
    Slice,
    Sqrt,
    Tensor,
    Unary,
    Update,
    program,
    scalar,
    tensor,
)
from paceline.weave.layout import Group, Partial, Reduction, Replicated, Sliced
from paceline.weave.ops import ReduceKind, Role, UnaryKind
from paceline.weave.program import FusedGroup, Kernel, Overlap, Program, Statement
from paceline.weave.rules import WeaveError
from paceline.weave.schedules import Schedule, schedule, schedules
from paceline.weave.traffic import Rates, Traffic, total_traffic

_LAZY = {
    "Budget": "paceline.weave.tuner",
    "autotune": "paceline.weave.tuner",
    "program_of": "paceline.weave.tuner",
    "Cut": "paceline.weave.linear",
    "overlapped_linear": "paceline.weave.linear",
    "replayed_s": "paceline.weave.replayed",
    "FusedStep": "paceline.weave.training",
    "fused_step": "paceline.weave.training",
    "Lamb": "paceline.weave.torch_lamb",
}
"""Name -> module that needs torch."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"paceline.weave has no {name!r}")
    return getattr(import_module(_LAZY[name]), name)


__all__ = [
    "AllGather",
    "AllReduce",
    "AllToAll",
    "Backend",
    "Broadcast",
    "Cast",
    "Dropout",
    "Executable",
    "FusedGroup",
    "Group",
    "Ite",
    "Kernel",
    "Lanes",
    "MatMul",
    "Maximum",
    "Minimum",
    "MulAdd",
    "Norm",
    "Overlap",
    "Partial",
    "Peers",
    "Program",
    "Rates",
    "ReduceAll",
    "ReduceKind",
    "ReduceScatter",
    "ReduceTo",
    "Reduction",
    "Repeat",
    "Replicated",
    "Result",
    "Role",
    "Schedule",
    "Send",
    "Site",
    "Slice",
    "Sliced",
    "Sqrt",
    "Statement",
    "Tensor",
    "Traffic",
    "Unary",
    "UnaryKind",
    "Update",
    "WeaveError",
    "as_graph",
    "distribute",
    "emit",
    "interpret",
    "program",
    "scalar",
    "schedule",
    "schedules",
    "tensor",
    "total_traffic",
]
