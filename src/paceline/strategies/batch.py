"""Another number of samples a worker and step, as a multiple of the recorded.

Forward, backward and loading grow with it, and so do activations that tensor-parallel workers or
pipeline stages send; gradients, their copies, the update and a host's launches stay. In a live job
it takes effect with the next iterator over a DataLoader; batches that a script makes by itself stay
as they are, and a warning says so. Wrong where small work is bound by its calls rather than by its
samples, and where a larger batch no longer fits the caches or the device.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from paceline.graph import COMMUNICATION, NONE, Axis, Graph, LaneKind, Phase
from paceline.graph.copy_back import copies_back
from paceline.graph.gradients import reduced
from paceline.graph.graph import Bool
from paceline.graph.held import with_batch
from paceline.graph.links import Links
from paceline.graph.membership import among
from paceline.graph.rank_steps import RankSteps
from paceline.graph.scaled import scaled, unpriced, works
from paceline.runtime.run import Run
from paceline.strategies.strategy import Effect, Strategy, StrategyError

PASSES = among(len(Phase), np.array([Phase.FORWARD, Phase.BACKWARD, Phase.DATA]))
"""A table over all phases: true for those whose work is with samples."""
_ACTIVATIONS = (Axis.TENSOR, Axis.SEQUENCE, Axis.EXPERT, Axis.PIPELINE)


@dataclass(frozen=True)
class Batch(Strategy):
    effect: ClassVar[Effect] = Effect.RELAXED
    resizes: ClassVar[bool] = True
    conflicts: ClassVar[frozenset[str]] = frozenset({"batch"})
    applies: ClassVar[bool] = True
    in_turns: ClassVar[bool] = False

    factor: float

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise StrategyError(f"batch x {self.factor:g} was asked for; give more than 0")

    def transform(self, graph: Graph) -> Graph:
        grown = with_batch(scaled(graph, growing(graph), self.factor), self.factor)
        facts = replace(grown.facts, samples=grown.facts.samples * self.factor)
        return _sending(replace(grown, facts=facts), self.factor)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_loaders import loaders_with, with_batches

        return loaders_with(lambda loader: with_batches(loader, self.factor))

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        return (cls(factor) for factor in (0.5, 2.0, 4.0))


def growing(graph: Graph) -> Bool:
    """Work that takes as many times as long as there are samples."""
    grows: Bool = works(graph) & PASSES[graph.ops.phase] & ~_fixed(graph)
    return grows


def _fixed(graph: Graph) -> Bool:
    """Gradients copied back, and calls that hand kernels to a device, take what they take."""
    ops, links = graph.ops, Links.of(graph)
    streams = graph.lanes.kind == LaneKind.STREAM
    found = np.zeros(len(graph), np.bool_)
    if streams.any():
        found |= ~streams[ops.lane] & (ops.phase != Phase.DATA)
    given, steps = reduced(graph, links), RankSteps.of(graph)
    whose = np.full(len(graph), NONE, np.int64)
    whose[given] = steps.of_op[given]
    found[copies_back(graph, links, whose, steps.step).work] = True
    return found


def _sending(graph: Graph, factor: float) -> Graph:
    """Activations between workers grow too."""
    ops = graph.ops
    rows = [row for row, group in enumerate(graph.groups) if group.axis in _ACTIVATIONS]
    sent = np.isin(ops.kind, COMMUNICATION) & np.isin(ops.group, rows)
    if factor == 1 or not sent.any():
        return graph
    size = np.where(sent, np.rint(ops.size_bytes * factor), ops.size_bytes).astype(np.int64)
    return unpriced(replace(graph, ops=replace(ops, size_bytes=size)), sent)
