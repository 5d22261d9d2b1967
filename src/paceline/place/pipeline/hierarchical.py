"""PipeDream's planner: stages of unequal length and width, level by level of a machine hierarchy.

A level has `count` workers (each the whole of the level below) joined by links of one rate. With
T(i, j, m) the time of layers i..j-1 as one stage on m workers of a level, the best slowest stage is

    A(i, j, m) = min(T(i, j, m), min over s, m' of max(A(i, s, m - m'), edge(s), T(s, j, m')))

and T of a level above is T(i, j, m) = (A below(i, j, all) + 4 (m - 1) |w| / (rate m)) / m, as in
the published program (Narayanan et al. 2019); edge(s) = 2 a(s) / (rate m').
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from paceline.place.pipeline.errors import PlanError
from paceline.place.pipeline.profile import LayerCost


@dataclass(frozen=True)
class Level:
    """Workers of one level, and the rate of the links between them."""

    count: int
    bytes_per_s: float


@dataclass(frozen=True)
class StagePlan:
    """Layers first..last, end excluded, on so many devices in data parallel."""

    first: int
    end: int
    devices: int


@dataclass(frozen=True)
class HierarchicalPlan:
    """`slowest_ns` is the time a micro-batch of the slowest stage or link: the rate of the pipe."""

    slowest_ns: float
    stages: tuple[StagePlan, ...]


def plan_hierarchical(layers: Sequence[LayerCost], levels: Sequence[Level]) -> HierarchicalPlan:
    """The best plan on all workers of all levels, innermost level first."""
    if not layers or not levels:
        raise PlanError("PipeDream's planner needs a layer and a level of workers at least")
    for level in levels:
        if level.count < 1 or level.bytes_per_s <= 0:
            raise PlanError(f"{level}: give 1 or more workers and a rate above zero")
    return _Search(tuple(layers), tuple(levels)).best(len(levels), 0, len(layers), levels[-1].count)


class _Search:
    """Memory of the dynamic program; levels count from 1."""

    def __init__(self, layers: tuple[LayerCost, ...], levels: tuple[Level, ...]) -> None:
        self._layers, self._levels = layers, levels
        self._time = _sums([x.compute_ns for x in layers])
        self._weights = _sums([x.weight_bytes for x in layers])
        self.best = lru_cache(maxsize=None)(self._best)

    def _best(self, level: int, first: int, end: int, workers: int) -> HierarchicalPlan:
        found = self._whole(level, first, end, workers)
        for cut in range(first + 1, end):
            for last in range(1, workers):
                tail = self._whole(level, cut, end, last)
                edge = self._edge_ns(level, cut, last)
                if max(tail.slowest_ns, edge) < found.slowest_ns:
                    found = min(
                        found,
                        _chained(self.best(level, first, cut, workers - last), edge, tail),
                        key=lambda plan: plan.slowest_ns,
                    )
        return found

    def _whole(self, level: int, first: int, end: int, workers: int) -> HierarchicalPlan:
        """One stage, on `workers` of this level that each hold all of its layers."""
        inner = self._one_worker(level, first, end)
        weight = self._weights[end] - self._weights[first]
        rate = self._levels[level - 1].bytes_per_s
        sync = 4e9 * (workers - 1) * weight / (rate * workers)
        stages = tuple(replace(s, devices=s.devices * workers) for s in inner.stages)
        return HierarchicalPlan((inner.slowest_ns + sync) / workers, stages)

    def _one_worker(self, level: int, first: int, end: int) -> HierarchicalPlan:
        """The best on one worker of a level: a device, or the whole of the level below."""
        if level == 1:
            time = self._time[end] - self._time[first]
            return HierarchicalPlan(time, (StagePlan(first, end, 1),))
        return self.best(level - 1, first, end, self._levels[level - 2].count)

    def _edge_ns(self, level: int, cut: int, workers: int) -> float:
        rate = self._levels[level - 1].bytes_per_s
        return 2e9 * self._layers[cut].input_bytes / (rate * workers)


def _chained(head: HierarchicalPlan, edge_ns: float, tail: HierarchicalPlan) -> HierarchicalPlan:
    slowest = max(head.slowest_ns, edge_ns, tail.slowest_ns)
    return HierarchicalPlan(slowest, head.stages + tail.stages)


def _sums(values: Sequence[int]) -> list[int]:
    found = [0]
    for value in values:
        found.append(found[-1] + value)
    return found
