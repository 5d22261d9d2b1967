"""A transformer described by its dimensions, as a graph without durations."""

from paceline.graph.transformer.build import describe
from paceline.graph.transformer.description import (
    Degrees,
    Described,
    Recompute,
    Schedule,
    Training,
    Transformer,
)

__all__ = [
    "Degrees",
    "Described",
    "Recompute",
    "Schedule",
    "Training",
    "Transformer",
    "describe",
]
