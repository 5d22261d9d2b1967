"""`build`: the traces of all ranks, and what the recorder wrote beside them -> one graph.

Each rank is worked out on its own clock; only what joins ranks needs one clock for all.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paceline.errors import TraceError
from paceline.graph import UNPRICED, Graph, OpKind
from paceline.graph.bucket_gradients import NOTE, with_bucket_gradients
from paceline.record.sidecar import Sidecar
from paceline.trace.assemble import RankBlock, assemble
from paceline.trace.clocks import Aligned, Clock, clocks_of
from paceline.trace.core_waits import core_waits, plain_waits, with_core_waits
from paceline.trace.facts import with_facts
from paceline.trace.gradients import label_gradients
from paceline.trace.join import join
from paceline.trace.ranks import check_together
from paceline.trace.rules import find_all
from paceline.trace.samples import with_samples
from paceline.trace.stack import stack
from paceline.trace.steps import common_steps, steps_of
from paceline.trace.trace import Category, Steps, Trace
from paceline.trace.view import RankView

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class TraceWithSteps:
    """One rank's trace, or as much of it as joining ranks asks for, and its steps."""

    trace: Trace
    steps: Steps
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Wanted:
    """Which steps of a rank the graph has, and when, on the rank's own clock, its time 0 is."""

    rank: int
    steps: Steps
    origin_ns: int


Blocks = Callable[[Sequence[Wanted]], list[RankBlock]]
"""Works ranks out."""


def build(
    traces: Sequence[Trace],
    sidecars: Mapping[int, Sidecar] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Graph:
    """One graph of the whole job; `sidecars` by rank.

    `graph.meta["notes"]` says what was inferred, repaired or left out; `graph.meta["clocks"]` how
    each rank's clock was set.
    """
    by_rank = sidecars or {}
    views = {trace.rank: RankView(trace, by_rank.get(trace.rank)) for trace in traces}
    ranks = [TraceWithSteps(trace, *steps_of(views[trace.rank])) for trace in traces]
    with _SideBySide(views) as blocks:
        return build_of(ranks, blocks.of, meta)


class _SideBySide:
    """Works ranks out on all cores, for most of that runs outside the interpreter's lock. What no
    clock is needed for begins at once."""

    def __init__(self, views: Mapping[int, RankView]) -> None:
        self._views, self._pool = views, ThreadPoolExecutor(os.cpu_count())
        self._found = {rank: self._pool.submit(find_all, view) for rank, view in views.items()}

    def __enter__(self) -> "_SideBySide":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def of(self, wanted: Sequence[Wanted]) -> list[RankBlock]:
        return list(self._pool.map(self._block, wanted))

    def _block(self, wanted: Wanted) -> RankBlock:
        found = self._found[wanted.rank].result()
        return assemble(self._views[wanted.rank], found, wanted.steps, wanted.origin_ns)


def block_of(view: RankView, wanted: Wanted) -> RankBlock:
    """One rank's part of the graph."""
    return assemble(view, find_all(view), wanted.steps, wanted.origin_ns)


def build_of(
    ranks: Sequence[TraceWithSteps], blocks_of: Blocks, meta: Mapping[str, Any] | None = None
) -> Graph:
    """The same where ranks are worked out one by one, here or elsewhere."""
    missing = check_together([each.trace for each in ranks])
    ranks = sorted(ranks, key=lambda each: each.trace.rank)
    traces = [each.trace for each in ranks]
    clocks = clocks_of(traces)
    steps, notes = _steps(ranks)
    blocks = blocks_of(_wanted(traces, steps, clocks))
    joined = join(blocks, clocks)
    said = [*missing, *notes, *_said(blocks), *joined.notes]
    for note in said:
        _LOG.info("%s", note)
    facts = {"clocks": Aligned(tuple(traces), tuple(clocks)).facts(), "notes": said}
    whole = stack(blocks, joined, {**_facts(traces), **facts, **(meta or {})})
    if not all(trace.facts.get("timed", True) for trace in traces):
        return with_facts(label_gradients(_unpriced(whole), blocks), blocks)
    waits = core_waits(blocks, whole.ops.dur_ns)
    worked = replace(whole, ops=replace(whole.ops, dur_ns=whole.ops.dur_ns - waits))
    sampled = with_samples(worked, [block.alike for block in blocks])
    told = _with_gradients(with_facts(label_gradients(sampled, blocks), blocks))
    return with_core_waits(told, plain_waits(blocks, waits))


def _with_gradients(graph: Graph) -> Graph:
    """Where nobody recorded parameters, what the exchange of gradients shows of them."""
    made = with_bucket_gradients(graph)
    if made is graph:
        return graph
    return replace(made, meta={**made.meta, "notes": [*made.meta["notes"], NOTE]})


def _steps(ranks: Sequence[TraceWithSteps]) -> tuple[list[Steps], list[str]]:
    """The steps that all ranks have, on each one's own clock."""
    steps, notes = common_steps([each.steps for each in ranks])
    if not steps:
        told = "; ".join(f"rank {s.trace.rank}: {s.steps.number.tolist()}" for s in ranks)
        raise TraceError(
            f"no step was recorded on every rank ({told}). Import traces of the same steps "
            "of one job"
        )
    said = [f"rank {each.trace.rank}: {note}" for each in ranks for note in each.notes]
    return steps, [*said, *notes]


def _wanted(
    traces: Sequence[Trace], steps: Sequence[Steps], clocks: Sequence[Clock]
) -> list[Wanted]:
    """Time 0 of the graph is when the first rank begins its first step."""
    begins = [int(clock.at(mine.start_ns[:1])[0]) for mine, clock in zip(steps, clocks)]
    return [
        Wanted(trace.rank, mine, int(mine.start_ns[0]) - (begin - min(begins)))
        for trace, mine, begin in zip(traces, steps, begins)
    ]


def _unpriced(graph: Graph) -> Graph:
    """The graph of traces without times: what does work has yet to be priced."""
    works = np.isin(graph.ops.kind, (OpKind.COMPUTE, OpKind.COLLECTIVE, OpKind.SEND, OpKind.RECV))
    durations = np.where(works, UNPRICED, 0).astype(np.int64)
    return replace(graph, ops=replace(graph.ops, dur_ns=durations))


def _said(blocks: Sequence[RankBlock]) -> list[str]:
    return [
        f"rank {block.view.trace.rank}: {note}"
        for block in blocks
        for note in (*block.view.trace.notes, *block.notes)
    ]


def _facts(traces: Sequence[Trace]) -> dict[str, Any]:
    return {
        "source": traces[0].format,
        "ranks": [trace.rank for trace in traces],
        "driver_calls": _driver_calls(traces),
    }


def _driver_calls(traces: Sequence[Trace]) -> list[str]:
    """Names of the calls into the device's driver, by which pieces of host threads are known."""
    found: set[str] = set()
    for trace in traces:
        rows = trace.events.category == Category.RUNTIME
        found |= {trace.names[name] for name in np.unique(trace.events.name[rows]).tolist()}
    return sorted(found)
