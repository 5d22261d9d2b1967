"""A transformer described by its dimensions, as a graph without durations."""

from paceline.graph.schedules import Schedule
from paceline.imagine.transformer.build import describe
from paceline.imagine.transformer.description import (
    Degrees,
    Described,
    Recompute,
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
