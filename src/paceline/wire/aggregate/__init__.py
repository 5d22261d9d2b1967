"""Modes of aggregating gradients in the network: dense, integers, sparse blocks, sketches."""

from paceline.wire.aggregate.blocks import Blocks
from paceline.wire.aggregate.integers import Integer, Scale
from paceline.wire.aggregate.rounds import (
    Mode,
    Reduce,
    RoundRequest,
    SwitchOp,
    dense,
    through,
    together,
)
from paceline.wire.aggregate.sketch import Sketched, SketchShape, peeled, sketched

__all__ = [
    "Blocks",
    "Integer",
    "Mode",
    "Reduce",
    "RoundRequest",
    "Scale",
    "SketchShape",
    "Sketched",
    "SwitchOp",
    "dense",
    "peeled",
    "sketched",
    "through",
    "together",
]
