"""Workers of unequal speed get unequal parts of the global batch, and their gradients count by
their samples, so that each step is that of the plain job.

DDP takes the mean of the workers' gradients; worker i of W with n_i of N samples counts
n_i * W / N times in it.

`shares` has a number for each worker: their parts are in proportion. `choices` finds, from what
each worker's passes took in the recording, waiting for a core among it, those under which all end
together. The job needs a DataLoader with a DistributedSampler, whose batches are dealt anew from
the next iterator on; what is drawn without gradients, as for an evaluation, is not.

Wrong where the loss of a batch is a sum rather than a mean, where layers look at the batch as a
whole (batch normalisation sees other batches), and where a worker's time does not grow with its
samples.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from paceline.graph import Axis, Graph, OpKind
from paceline.graph.held import ranks_with_batches
from paceline.graph.replicas import Layout
from paceline.graph.scaled import scaled
from paceline.runtime.run import Run
from paceline.strategies.batch import PASSES, growing
from paceline.strategies.seldom import SELDOM
from paceline.strategies.strategy import Effect, Strategy, StrategyError

_WORTH = 0.02
"""Shares that make the slowest worker faster by less are not proposed."""


@dataclass(frozen=True)
class UnevenBatches(Strategy):
    effect: ClassVar[Effect] = Effect.EXACT
    conflicts: ClassVar[frozenset[str]] = SELDOM | {
        *("accumulate", "batch", "count_sketch", "fused_step", "powersgd", "uneven_batches"),
        "workers",
    }
    applies: ClassVar[bool] = True
    in_turns: ClassVar[bool] = False  # it takes effect with the next epoch
    by_rank: ClassVar[bool] = True

    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        for share in self.shares:
            if not isinstance(share, (int, float)) or not 0 < share < float("inf"):
                raise StrategyError(f"shares holds {share!r}; give numbers above 0")

    def transform(self, graph: Graph) -> Graph:
        _require_plain(graph)
        if len(self.shares) != graph.world_size:
            raise StrategyError(
                f"{len(self.shares)} shares for {graph.world_size} workers; give each worker one"
            )
        grows = growing(graph) | _waits(graph)
        by_rank = np.array(self.factors)
        return ranks_with_batches(scaled(graph, grows, by_rank[graph.ops.rank]), self.factors)

    @property
    def factors(self) -> tuple[float, ...]:
        """Each worker's batch over the recorded one."""
        mean = sum(self.shares) / len(self.shares)
        return tuple(share / mean for share in self.shares)

    def same_within(self, classes: Sequence[int]) -> bool:
        if len(classes) != len(self.shares):
            return False
        return len(set(zip(classes, self.shares))) == len(set(classes))

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_uneven import dealt_unevenly

        return dealt_unevenly(run, self.shares)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """The shares under which all workers end together, where workers differ."""
        plain = any(group.axis is Axis.DATA for group in graph.groups)
        if plain and Layout.of(graph).replicas == graph.world_size == len(graph.ranks) > 1:
            grown, fixed = work_of(graph)
            shares = level(grown, fixed)
            if max(fixed + shares * grown) < (1 - _WORTH) * max(fixed + grown):
                yield cls(tuple(round(float(share), 3) for share in shares))


Times = npt.NDArray[np.float64]


def work_of(graph: Graph) -> tuple[Times, Times]:
    """Nanoseconds of each worker that grow with its samples, and those that do not."""
    ops = graph.ops
    grows = growing(graph) | _waits(graph)
    own = (ops.kind == OpKind.COMPUTE) | (ops.kind == OpKind.CORE_WAIT) | (ops.kind == OpKind.HOST)
    dur = np.maximum(ops.dur_ns, 0).astype(np.float64)
    count = graph.world_size
    grown = np.bincount(ops.rank, dur * grows, count).astype(np.float64)
    return grown, np.bincount(ops.rank, dur * (own & ~grows), count).astype(np.float64)


def level(grown: Times, fixed: Times) -> Times:
    """Shares with a mean of 1 under which `fixed + share * grown` is the same for all; a worker
    that is late without any samples gets next to none."""
    low, high = 0.0, float(max(fixed + grown * len(grown)))
    for _ in range(100):
        end = (low + high) / 2
        enough = _shares(grown, fixed, end).sum() >= len(grown)
        low, high = (low, end) if enough else (end, high)
    shares = _shares(grown, fixed, high)
    found: Times = shares * (len(grown) / shares.sum())
    return found


def _shares(grown: Times, fixed: Times, end: float) -> Times:
    found: Times = np.maximum((end - fixed) / np.maximum(grown, 1.0), 1e-3)
    return found


def _waits(graph: Graph) -> npt.NDArray[np.bool_]:
    """A worker that is kept from its core waits for as long again with every sample."""
    ops = graph.ops
    found: npt.NDArray[np.bool_] = (ops.kind == OpKind.CORE_WAIT) & PASSES[ops.phase]
    return found


def _require_plain(graph: Graph) -> None:
    if Layout.of(graph).stride > 1:
        raise StrategyError(
            "workers that hold parts of a model together (tensor or pipeline parallelism) share "
            "their batch; uneven batches are for plain data parallelism"
        )


__all__ = ["UnevenBatches", "level", "work_of"]
