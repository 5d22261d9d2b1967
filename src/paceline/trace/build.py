"""`build`: the traces of all ranks, and what the recorder wrote beside them -> one graph.

Each rank is worked out on its own clock; only what joins ranks needs one clock for all.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from paceline.errors import TraceError
from paceline.graph import UNPRICED, Graph, OpKind
from paceline.record.sidecar import Sidecar
from paceline.trace.assemble import Block, assemble
from paceline.trace.clocks import Aligned, Clock, clocks_of
from paceline.trace.core_waits import core_waits, with_core_waits
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


def build(
    traces: Sequence[Trace],
    sidecars: Mapping[int, Sidecar] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Graph:
    """One graph of the whole job; `sidecars` by rank.

    `graph.meta["notes"]` says what was inferred, repaired or left out; `graph.meta["clocks"]` how
    each rank's clock was set.
    """
    missing = check_together(traces)
    ordered, by_rank = sorted(traces, key=lambda trace: trace.rank), sidecars or {}
    clocks = clocks_of(ordered)
    views = [RankView(trace, by_rank.get(trace.rank)) for trace in ordered]
    steps, notes = _steps(views)
    blocks = _blocks(views, steps, clocks)
    joined = join(blocks, clocks)
    said = [*missing, *notes, *_said(blocks), *joined.notes]
    for note in said:
        _LOG.info("%s", note)
    facts = {"clocks": Aligned(tuple(ordered), tuple(clocks)).facts(), "notes": said}
    whole = stack(blocks, joined, {**_facts(views), **facts, **(meta or {})})
    if not all(trace.facts.get("timed", True) for trace in ordered):
        return with_facts(label_gradients(_unpriced(whole), blocks), blocks)
    waits = core_waits(blocks, whole.ops.dur_ns)
    worked = replace(whole, ops=replace(whole.ops, dur_ns=whole.ops.dur_ns - waits))
    alike = np.concatenate([block.alike for block in blocks])
    labelled = with_facts(label_gradients(with_samples(worked, alike), blocks), blocks)
    return with_core_waits(labelled, waits)


def _steps(views: Sequence[RankView]) -> tuple[list[Steps], list[str]]:
    """The steps that all ranks have, on each one's own clock."""
    found = [steps_of(view) for view in views]
    steps, notes = common_steps([steps for steps, _ in found])
    if not steps:
        seen = "; ".join(
            f"rank {view.trace.rank}: {mine.number.tolist()}"
            for view, (mine, _) in zip(views, found)
        )
        raise TraceError(
            f"no step was recorded on every rank ({seen}). Import traces of the same steps "
            "of one job"
        )
    said = [f"rank {v.trace.rank}: {note}" for v, (_, some) in zip(views, found) for note in some]
    return steps, [*said, *notes]


def _blocks(
    views: Sequence[RankView], steps: Sequence[Steps], clocks: Sequence[Clock]
) -> list[Block]:
    """Each rank's part; time 0 of the graph is when the first rank begins its first step."""
    begins = [int(clock.at(mine.start_ns[:1])[0]) for mine, clock in zip(steps, clocks)]
    return [
        assemble(view, find_all(view), mine, int(mine.start_ns[0]) - (begin - min(begins)))
        for view, mine, begin in zip(views, steps, begins)
    ]


def _unpriced(graph: Graph) -> Graph:
    """The graph of traces without times: what does work has yet to be priced."""
    works = np.isin(graph.ops.kind, (OpKind.COMPUTE, OpKind.COLLECTIVE, OpKind.SEND, OpKind.RECV))
    durations = np.where(works, UNPRICED, 0).astype(np.int64)
    return replace(graph, ops=replace(graph.ops, dur_ns=durations))


def _said(blocks: Sequence[Block]) -> list[str]:
    return [
        f"rank {block.view.trace.rank}: {note}"
        for block in blocks
        for note in (*block.view.trace.notes, *block.notes)
    ]


def _facts(views: Sequence[RankView]) -> dict[str, Any]:
    return {
        "source": views[0].trace.format,
        "ranks": [view.trace.rank for view in views],
        "driver_calls": _driver_calls(views),
    }


def _driver_calls(views: Sequence[RankView]) -> list[str]:
    """Names of the calls into the device's driver, by which pieces of host threads are known."""
    found: set[str] = set()
    for trace in (view.trace for view in views):
        rows = trace.events.category == Category.RUNTIME
        found |= {trace.names[name] for name in np.unique(trace.events.name[rows]).tolist()}
    return sorted(found)
