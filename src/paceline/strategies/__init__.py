"""Ideas that make training faster: one file each, a change of a graph that composes with others.

plan = [parse("workers(count=4)"), parse("buckets(size_bytes=4194304)")]
changed = transformed(graph, plan)
"""

from paceline.strategies.named import kind_of, known, parse, strategy
from paceline.strategies.plan import MadeFor, Plan, Predicted, load_plan, made_for, save_plan
from paceline.strategies.strategy import (
    Effect,
    Strategy,
    StrategyError,
    brief,
    in_a_sentence,
    name_of,
    transformed,
)

__all__ = [
    "Effect",
    "MadeFor",
    "Plan",
    "Predicted",
    "Strategy",
    "StrategyError",
    "brief",
    "in_a_sentence",
    "kind_of",
    "known",
    "load_plan",
    "made_for",
    "name_of",
    "parse",
    "save_plan",
    "strategy",
    "transformed",
]
