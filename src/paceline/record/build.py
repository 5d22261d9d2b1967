"""`build`: the traces of all ranks, and what the recorder told beside them -> one graph."""

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.errors import TraceError
from paceline.graph import NONE, Graph
from paceline.record.assemble import assemble
from paceline.record.gradients import label_gradients
from paceline.record.join import join
from paceline.record.rules import find_all
from paceline.record.sidecar import Sidecar
from paceline.record.stack import stack
from paceline.record.steps import common_steps, steps_of
from paceline.record.trace import Trace
from paceline.record.view import RankView


def build(
    traces: Sequence[Trace],
    sidecars: Mapping[int, Sidecar] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Graph:
    """One graph of the whole job. `sidecars` by rank. Traces must be on one clock (`clocks`).

    The graph's `meta["notes"]` says what was inferred, repaired or left out.
    """
    _check_ranks(traces)
    told = sidecars or {}
    views = [RankView(t, told.get(t.rank)) for t in sorted(traces, key=lambda t: t.rank)]
    steps, notes = _steps(views)
    origin = int(min(s.start_ns[0] for s in steps))
    blocks = [
        assemble(view, find_all(view), mine, origin) for view, mine in zip(views, steps)
    ]
    joined = join(blocks)
    of_ranks = [_of_rank(b.view, (*b.view.trace.notes, *b.notes)) for b in blocks]
    said = [*notes, *(note for some in of_ranks for note in some), *joined.notes]
    whole = stack(blocks, joined, {**_facts(views), **(meta or {}), "notes": said})
    return label_gradients(whole, blocks)


def _steps(views: list[RankView]):  # type: ignore[no-untyped-def]
    found = [steps_of(view) for view in views]
    steps, notes = common_steps([steps for steps, _ in found])
    if not steps:
        seen = "; ".join(f"rank {v.trace.rank}: {s.number.tolist()}" for v, (s, _) in zip(views, found))
        raise TraceError(
            f"no step was recorded on every rank ({seen}). Import traces of the same steps of one job"
        )
    said = [note for view, (_, some) in zip(views, found) for note in _of_rank(view, some)]
    return steps, [*said, *notes]


def _check_ranks(traces: Sequence[Trace]) -> None:
    if not traces:
        raise TraceError("no traces were given; give at least one rank's")
    unknown = [str(t) for t in traces if t.rank == NONE]
    if unknown and len(traces) > 1:
        raise TraceError(f"{', '.join(unknown)}: the rank is not known; pass --ranks 0,1,...")
    ranks = [trace.rank for trace in traces]
    twice = sorted({rank for rank in ranks if ranks.count(rank) > 1})
    if twice:
        files = ", ".join(t.source for t in traces if t.rank in twice)
        raise TraceError(
            f"rank {twice[0]} has {ranks.count(twice[0])} traces: {files}. Leave all but one out, "
            "or pass --ranks 0,1,... to number the files in the order given"
        )


def _of_rank(view: RankView, notes: Sequence[str]) -> list[str]:
    return [f"rank {view.trace.rank}: {note}" for note in notes]


def _facts(views: list[RankView]) -> dict[str, Any]:
    return {
        "source": views[0].trace.format,
        "world_size": max([v.trace.world_size for v in views] + [len(views)]),
        "ranks": [view.trace.rank for view in views],
    }


