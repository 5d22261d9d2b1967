"""Gradients exchanged and weights updated in one kernel over memory that the host's ranks share.
CoCoNet's fused reduce-scatter, update and all-gather (Jangda et al., ASPLOS 2022).

Buckets, their copies and the optimizer's own passes go: each rank reads all gradients of its share,
updates it and writes it to all ranks. Predicted by the bytes that this moves. Ranks of one host
only. Wrong where ranks together ask for more bandwidth than the memory rate of one tells.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from paceline.graph import UNPRICED, DepKind, DType, Graph, LaneKind, OpKind, Phase
from paceline.graph.copy_back import copy_back
from paceline.graph.gradients import not_told, reducing
from paceline.graph.graph import Bool, Int64
from paceline.graph.kinds import NONE
from paceline.graph.links import Links
from paceline.graph.scaled import works
from paceline.graph.splice import Added, spliced
from paceline.runtime.exchange import ExchangeError
from paceline.runtime.run import Run
from paceline.strategies.coded import CODECS
from paceline.strategies.strategy import Strategy, StrategyError

STATES = {"SGD": 1, "Adam": 2, "AdamW": 2, "Lamb": 2}
"""Tensors of an optimizer's state, each as large as the weights."""


@dataclass(frozen=True)
class FusedStep(Strategy):
    conflicts: ClassVar[frozenset[str]] = CODECS | {
        "accumulate",
        "buckets",
        "fused_optimizer",
        "fused_step",
        "hierarchical",
        "overlap_update",
        "parameter_server",
        "partition",
        "priority",
        "zero1",
    }
    follows: ClassVar[frozenset[str]] = frozenset({"remodelling"})
    applies: ClassVar[bool] = True
    one_host: ClassVar[bool] = True

    def transform(self, graph: Graph) -> Graph:
        states, links = _states(graph), Links.of(graph)
        reduces = reducing(graph, links)
        if not len(reduces):
            raise not_told()
        return _Fusion(graph, links, reduces, states).graph_with_it()

    def rests_on(self, graph: Graph) -> Iterator[str]:
        yield "fused_step: all ranks run on one host and share its memory"

    @contextmanager
    def apply(self, run: Run) -> Iterator[None]:
        from paceline.weave import fused_step
        from paceline.weave.training import FUSED

        if len(run.replicas) != 1:
            raise ExchangeError(
                f"the fused step serves one DistributedDataParallel module, and this job has "
                f"{len(run.replicas)}; leave fused_step out of the plan"
            )
        with run.exchange.replaced(), fused_step(run.replicas[0], run.optimizer) as step:
            if step.schedule != FUSED:
                raise ExchangeError(f"the fused step cannot run here: {step.reason}")
            yield


@dataclass(frozen=True, eq=False)
class _Fusion:
    """What becomes one kernel on each rank, in each step."""

    source: Graph
    links: Links
    reduces: Int64
    states: int

    def graph_with_it(self) -> Graph:
        ops = self.source.ops
        gone = np.zeros(len(self.source), np.bool_)
        dur, size, kind = ops.dur_ns.copy(), ops.size_bytes.copy(), ops.kind.copy()
        dtype = ops.dtype.copy()
        links = self.links
        for step in np.unique(ops.step[self.reduces]).tolist():
            mine = self.reduces[ops.step[self.reduces] == step]
            parts = [self._removed(mine[ops.rank[mine] == r], gone) for r in _ranks(ops.rank[mine])]
            kernels, lasts = np.array(parts, np.int64).T
            dur[kernels], kind[kernels], dtype[kernels] = UNPRICED, OpKind.COMPUTE, DType.FLOAT32
            size[kernels] = self._bytes(mine, len(parts))
            several = np.repeat(kernels, len(lasts)), np.tile(lasts, len(kernels))
            links = links.joined(Links.all_of(*several, DepKind.GRADIENT))
        changed = replace(ops, dur_ns=dur, size_bytes=size, kind=kind, dtype=dtype)
        made = replace(self.source, ops=changed)
        none = np.zeros(0, np.int64)
        return spliced(made, gone, Added(none, none, {}), links)

    def _removed(self, mine: Int64, gone: Bool) -> tuple[int, int]:
        """Mark what goes of one rank's step; its kernel, and the op before it."""
        ops, graph = self.source.ops, self.source
        asks = self.links.src[np.isin(self.links.op, mine) & (self.links.kind == DepKind.LAUNCH)]
        threads = graph.lanes.kind[ops.lane[asks]] == LaneKind.COMM_THREAD
        updates = self._updates(mine, int(asks[~threads].max(initial=NONE)))
        kernel = int(updates[0])
        here = (ops.lane == ops.lane[kernel]) & (ops.step == ops.step[kernel])
        gone[mine] = True
        gone[asks[threads | (ops.phase[asks] == Phase.COMMUNICATION)]] = True
        gone[copy_back(graph, self.links, mine).work] = True
        gone[updates] = True
        gone[kernel] = False
        before = np.flatnonzero(here[:kernel] & ~gone[:kernel])
        return kernel, int(before[-1])

    def _updates(self, mine: Int64, asked: int) -> Int64:
        """The rank's update in that step: behind the last hand-over, for gradients may be cleared
        before it."""
        ops = self.source.ops
        found = (ops.rank == ops.rank[mine[0]]) & (ops.step == ops.step[mine[0]])
        found &= works(self.source) & (ops.phase == Phase.UPDATE)
        rows = np.flatnonzero(found)
        if not len(rows[rows > asked]):
            raise StrategyError(
                "the recording does not show which ops update the parameters; record the job "
                "with `paceline record`"
            )
        return rows[rows > asked]

    def _bytes(self, reduces: Int64, ranks: int) -> int:
        """What one rank reads and writes: of its share all gradients, weights and state, and the
        new weights and state, those to every rank."""
        whole = int(self.source.ops.size_bytes[reduces].sum()) // ranks
        return whole * (2 * ranks + 1 + 2 * self.states) // ranks


def _ranks(rank: Int64) -> list[int]:
    return [int(r) for r in np.unique(rank)]


def _states(graph: Graph) -> int:
    told = graph.facts.optimizer
    if (graph.lanes.kind == LaneKind.STREAM).any():
        raise StrategyError(
            "the job trains on a device, and the fused step works in the host's memory; leave "
            "fused_step out"
        )
    if graph.world_size < 2:
        raise StrategyError("one worker exchanges nothing; the fused step needs two or more")
    if told is None or told.kind not in STATES:
        named = "an optimizer that is not recorded" if told is None else told.kind
        raise StrategyError(
            f"there is no fused step for {named}; there is one for {', '.join(STATES)}, in jobs "
            "recorded with `paceline record`"
        )
    return STATES[told.kind]
