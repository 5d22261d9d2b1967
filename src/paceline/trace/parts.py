"""Traces of many ranks, each read and worked out by a worker: what `build` does, one task per rank.

Every trace is read twice. First for what joins ranks: its steps, its communication, its span. Then,
once the clocks are set and the common steps are known, for its block of the graph. A worker keeps
nothing between the two, so that one which dies costs its task alone, and what comes back is what
the graph is made of, not the trace.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paceline.errors import TraceError
from paceline.graph import NONE, Graph
from paceline.spread import Answers, Died, OneByOne, opened
from paceline.trace.assemble import RankBlock
from paceline.trace.build import TraceWithSteps, Wanted, block_of, build_of
from paceline.trace.readers import Format, format_of, read_one
from paceline.trace.readers.source import Source
from paceline.trace.steps import steps_of
from paceline.trace.trace import Category, Int64, Trace, empty, select
from paceline.trace.view import RankView


@dataclass(frozen=True)
class RankTrace:
    """Where one rank's trace is, and how it is read."""

    source: Source
    rank: int | None = None  # None: as the file tells
    salvage: bool = False

    def read(self) -> Trace:
        trace = read_one(self.source, salvage=self.salvage)
        return trace if self.rank is None else replace(trace, rank=self.rank)


@dataclass(frozen=True, eq=False)
class BlockRequest:
    """A rank's block of the graph, to be worked out."""

    of: RankTrace
    wanted: Wanted


def build_spread(traces: Sequence[RankTrace], on: str) -> Graph:
    """The graph of all these traces, made on `processes`, `dask://...` or `ray://...`."""
    _require_timed(traces)
    with opened(on, OneByOne(answer)) as answers:
        return build_with(answers, traces)


def build_with(answers: Answers, traces: Sequence[RankTrace]) -> Graph:
    """The same by workers that are there."""
    found = _all(answers, traces)
    by_rank = {seen.trace.rank: trace for trace, seen in zip(traces, found)}

    def blocks_of(wanted: Sequence[Wanted]) -> list[RankBlock]:
        return _all(answers, [BlockRequest(by_rank[each.rank], each) for each in wanted])

    return build_of(found, blocks_of)


def answer(item: RankTrace | BlockRequest) -> TraceWithSteps | RankBlock:
    """Runs on a worker."""
    if isinstance(item, RankTrace):
        trace = item.read()
        return TraceWithSteps(slim(trace)[0], *steps_of(RankView(trace)))
    return slim_block(block_of(RankView(item.of.read()), item.wanted))


def slim(trace: Trace) -> tuple[Trace, Int64]:
    """The trace with those events alone that joining ranks asks about; and which rows they were."""
    events, collectives = trace.events, trace.collectives
    runtime = np.flatnonzero(events.category == Category.RUNTIME)
    _, called = np.unique(events.name[runtime], return_index=True)
    ends = [events.start_ns.argmin(), events.end_ns.argmax()] if len(events) else []
    told = collectives.event[collectives.event != NONE].astype(np.int64)
    rows = np.unique(np.concatenate([told, runtime[called], np.array(ends, np.int64)]))
    place = np.append(np.full(len(events), NONE, np.int64), NONE)
    place[rows] = np.arange(len(rows))
    kept = select(events, rows)
    named = np.unique(np.concatenate([kept.name, collectives.group[collectives.group != NONE]]))
    names = np.append(np.full(len(trace.names), NONE, np.int32), np.int32(NONE))
    names[named] = np.arange(len(named))
    return replace(
        trace,
        events=replace(kept, name=names[kept.name], form=np.full(len(rows), NONE, np.int32)),
        names=tuple(trace.names[name] for name in named.tolist()),
        collectives=replace(
            collectives,
            event=place[collectives.event].astype(np.int32),
            group=names[collectives.group],
        ),
        **{name: empty(type(getattr(trace, name))) for name in ("syncs", "flows", "allocations")},
        layer_of=None,
        layers=(),
        forms=(),
    ), rows  # fmt: skip


def slim_block(block: RankBlock) -> RankBlock:
    """The block with as little of its trace."""
    trace, rows = slim(block.view.trace)
    unused: dict[str, Any] = {name: np.zeros(0, np.int64) for name in ("event", "rank_in_lane")}
    return replace(
        block,
        view=RankView(trace),
        rows=replace(block.rows, **unused),
        op_of_event=block.op_of_event[rows],
    )


def _all(answers: Answers, items: Sequence[Any]) -> list[Any]:
    """In the order of the items."""
    found: dict[int, Any] = {}
    place = {id(item): at for at, item in enumerate(items)}
    for item, got in answers(items):
        if isinstance(got, Died):
            of = item if isinstance(item, RankTrace) else item.of
            raise TraceError(
                f"each of {got.times} workers that read {of.source.name} died. It may need more "
                "memory than a worker has: take fewer workers, or import it without --on"
            )
        found[place[id(item)]] = got
    return [found[at] for at in range(len(items))]


def _require_timed(traces: Sequence[RankTrace]) -> None:
    """Files that complete each other are brought together in one process."""
    other = [t.source.name for t in traces if format_of(t.source) is not Format.CHROME]
    if other:
        raise TraceError(
            f"{other[0]} is no Chrome-format trace, and --on reads nothing else: one file for each "
            "rank. Import it without --on"
        )
