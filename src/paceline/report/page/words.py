"""The headline: what a person should know before looking at anything."""

from collections.abc import Sequence

import numpy as np

from paceline.predict import Prediction
from paceline.replay import Timeline
from paceline.report.page.contents import Piece, Scenario, Sentence
from paceline.report.run import RunSummary
from paceline.report.summary import Summary
from paceline.report.text.quantities import duration, share

_KINDS = {
    "compute": "computing",
    "host": "calls of the host",
    "collective": "collectives",
    "core_wait": "threads that wait for a core",
    "send": "messages",
    "recv": "messages",
    "transfer": "transfers",
    "copy": "copies",
    "data": "loading data",
    "wait": "waits",
}
_GAINS = 0.995  # of a step: what shortens it less is not worth a sentence


def headline(
    timeline: Timeline, summary: Summary, run: RunSummary, advice: Sentence
) -> tuple[Sentence, ...]:
    """The step, what it hangs on, who is waited for, and the one thing to change."""
    found = [_step(timeline, run), _hangs_on(timeline, summary), _waited(timeline, run), advice]
    return tuple(sentence for sentence in found if sentence)


def predicted(made: Prediction) -> Sentence:
    """How long a step is predicted to take, with the typical error."""
    between = f"{duration(made.low_ns)} to {duration(made.high_ns)}"
    return (
        Piece(f"A step is predicted to take {duration(made.step_ns)} on {made.workers:,} "
              f"worker{'s' * (made.workers != 1)} (typical error {between})."),
    )  # fmt: skip


def _step(timeline: Timeline, run: RunSummary) -> Sentence:
    ranks = len(timeline.graph.ranks)
    where = f" on {ranks:,} rank{'s' * (ranks != 1)}."
    if len(run.steps.number) < 2:
        return (Piece(f"A step takes {duration(run.median_step_ns)}{where}"),)
    return (
        Piece("A step takes "),
        Piece(duration(run.median_step_ns), span_ns=_median_step(timeline, run)),
        Piece(f"{where[:-1]}; its {len(run.steps.number)} recorded steps spread by "
              f"{share(run.spread, 1.0) or '0 %'}."),
    )  # fmt: skip


def _median_step(timeline: Timeline, run: RunSummary) -> tuple[int, int]:
    """The recorded step that is nearest to the median."""
    away = np.abs(np.array(run.steps.lasted_ns) - run.median_step_ns)
    mine = timeline.graph.ops.step == run.steps.number[int(np.argmin(away))]
    return int(timeline.ready_ns[mine].min()), int(timeline.end_ns[mine].max())


def _hangs_on(timeline: Timeline, summary: Summary) -> Sentence:
    if not summary.path_ops or not summary.step_ns:
        return ()
    kind, spent = next(iter(summary.path_by_kind.items()))
    most = summary.path_ops[0]
    return (
        Piece(f"It hangs on {_KINDS.get(kind, kind)}, {share(spent, summary.step_ns)} of the "
              "critical path; most of all on "),
        Piece(most.name, op=heaviest(timeline, most.name)),
        Piece(f" ({share(most.share_ns, summary.step_ns)})."),
    )  # fmt: skip


def heaviest(timeline: Timeline, name: str) -> int | None:
    """The op of that name with the largest share of the critical path."""
    path, graph = timeline.critical_path, timeline.graph
    index = next((i for i, text in enumerate(graph.names) if text == name), None)
    mine = np.flatnonzero(graph.ops.name[path.ops] == index) if index is not None else ()
    return int(path.ops[mine[np.argmax(path.share_ns[mine])]]) if len(mine) else None


def _waited(timeline: Timeline, run: RunSummary) -> Sentence:
    """For whom others waited longest, where that is worth saying."""
    if not run.stragglers or run.stragglers[0].caused_ns < 0.01 * timeline.step_ns:
        return ()
    late = run.stragglers[0]
    theirs = [m for m in run.collectives if m.late_rank == late.rank]
    worst = max(theirs, key=lambda meeting: meeting.waiting_ns)
    members = timeline.members_of(worst.instance)
    mine = members[timeline.graph.ops.rank[members] == late.rank]
    return (
        Piece(f"Others wait for rank {late.rank}: {duration(late.caused_ns)} in all, longest at "),
        Piece(worst.name, op=int(mine[0])),
        Piece("."),
    )


def best_of(base: Scenario, others: Sequence[Scenario]) -> Sentence:
    """The best strategy that was tried, with its predicted gain; nothing where none gains."""
    best = min(others, key=lambda each: each.step_ns, default=None)
    if best is None or best.step_ns > _GAINS * base.step_ns:
        return ()
    gain = 1 - best.step_ns / base.step_ns
    return (
        Piece(f"Change one thing: {best.name}. It is predicted to take the step from "
              f"{duration(base.step_ns)} to {duration(best.step_ns)}, {100 * gain:.0f} % less."),
    )  # fmt: skip


def halved(step_ns: int, after_ns: Sequence[tuple[str, int]]) -> Sentence:
    """Where no strategy gains: the class of ops that would bring most if it took half."""
    found = min(after_ns, key=lambda row: row[1], default=None)
    if found is None or found[1] > _GAINS * step_ns:
        return ()
    label, after = found
    gain = 100 * (1 - after / step_ns)
    return (
        Piece(f"Change one thing: {label}. In half its time a step would take "
              f"{duration(after)} and not {duration(step_ns)}, {gain:.0f} % less."),
    )  # fmt: skip
