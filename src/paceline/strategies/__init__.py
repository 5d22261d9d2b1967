"""Ideas that make training faster: one file each, a change of a graph that composes with others.

plan = [parse("workers(count=4)"), parse("buckets(size_bytes=4194304)")]
changed = transformed(graph, plan)
"""

from paceline.strategies.strategy import (
    Strategy,
    StrategyError,
    known,
    parse,
    strategy,
    transformed,
)

__all__ = ["Strategy", "StrategyError", "known", "parse", "strategy", "transformed"]
