"""Predictions of jobs that a history knows, against the same without it, on left-out runs.

Data: the measured cells of `retarget` and the measured rows of `strategies`, with the recordings of
each, as they are kept in benchmarks/results; nothing is measured here. Each row is predicted with a
history of other rows, through the same function that `paceline predict` asks, priors and the check
on left-out runs included. What is held back for it:

run      all rows of the process that measured it (rows of `strategies` share one in fives); these
         are `error_before` and `error_after`
row      the row alone, which neighbours in the same minutes then tell of
setting  all rows of that model with as many workers at that rate
later    all rows that were not measured before it, as when the history grew
model    all rows of that model

Rows whose job has no other run left are unknown to the history and predicted without; `known` says
how many rows are not. Errors are of the step; `worst_job_change` is of the mean error of a job
(model, workers), in shares.
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy import calibrated, cells, recordings
from benchmarks.accuracy.strategy_blocks import kept
from benchmarks.accuracy.strategy_plans import batches_in, pairs, singles
from benchmarks.accuracy.strategy_recordings import recorded
from paceline.cluster import Cluster
from paceline.errors import PacelineError
from paceline.graph import Graph
from paceline.history import CorrectionRequest, Entry, Ground, JobTraits, Kind, Measured, Predicted
from paceline.history.learning import correction, lessons
from paceline.predict import Prediction, Question, predict
from paceline.strategies import Strategy, parse, strategy

QUICK = 20  # rows that are predicted, evenly drawn


@dataclass(frozen=True)
class Of:
    """Whose rows: `source` is the benchmark that measured them, and stands for its machine."""

    source: str
    model: str
    mbit: int

    @property
    def of_model(self) -> tuple[str, str]:
        return self.source, self.model


@dataclass(frozen=True, eq=False)
class Row:
    """One measured row with its prediction."""

    entry: Entry
    of: Of
    again: Callable[[Question], Prediction]
    question: Question

    @property
    def plain(self) -> bool:
        """Measured beside others, without a strategy: in the history, and not judged."""
        return not self.entry.strategies

    @property
    def workers(self) -> int:
        return self.entry.job.world_size


HELD_BACK: dict[str, Callable[[Row, Row], bool]] = {
    "run": lambda row, other: other.entry.run == row.entry.run,
    "row": lambda row, other: other is row,
    "setting": lambda row, other: (other.of, other.workers) == (row.of, row.workers),
    "later": lambda row, other: other.entry.at_ns >= row.entry.at_ns,
    "model": lambda row, other: other.of.of_model == row.of.of_model,
}


def main() -> None:
    parser = measure.parser(__doc__ or "")
    options = parser.parse_args()
    measure.report("accuracy/history", figures(options), options)


def figures(options: argparse.Namespace) -> dict[str, Any]:
    rows = sorted([*cell_rows(), *block_rows()], key=lambda row: row.entry.at_ns)
    judged = [row for row in rows if not row.plain]
    if options.quick:
        judged = judged[:: max(1, len(judged) // QUICK)]
    found: dict[str, Any] = {}
    for name, held in HELD_BACK.items():
        told = [judge(row, [other for other in rows if not held(row, other)]) for row in judged]
        shown = summary(told)
        found[name] = {**shown, "by_source": _by(told, lambda t: t.row.of.source)}
        if name == "run":
            found |= {k: shown[k] for k in ("error_before", "error_after", "worst_job_change")}
            found["ratio"] = shown["ratio"]
            found["rows"] = [_shown(each) for each in told]
    return found


@dataclass(frozen=True, eq=False)
class Judged:
    """A row's errors, as shares of the measured step."""

    row: Row
    known: bool
    corrected: bool
    before: float
    after: float


def judge(row: Row, others: Sequence[Row]) -> Judged:
    """The row, predicted with a history of the others."""
    guess, seen = row.entry.predicted, row.entry.measured
    assert guess is not None
    assert seen is not None
    past = lessons([other.entry for other in others])
    by = correction(past, CorrectionRequest.of(row.entry.job, guess.ground, row.entry.strategies))
    known = any(one.job == row.entry.job for one in past)
    before = guess.step_ns / seen.step_ns - 1
    if by is None:
        return Judged(row, known, False, before, before)
    after = row.again(replace(row.question, correction=by)).batch_ns / seen.step_ns - 1
    return Judged(row, known, True, before, after)


def summary(told: Sequence[Judged]) -> dict[str, Any]:
    """Over rows of jobs that the history knows; beside them, over all."""
    known = [each for each in told if each.known]
    jobs = _by(told, lambda t: f"{t.row.of.source} {t.row.of.model} x{t.row.workers}")
    change = {name: job["error_after"] - job["error_before"] for name, job in jobs.items()}
    worst = max(change, key=lambda name: change[name])
    return {
        **_errors(known or told),
        "known": len(known),
        "corrected": sum(each.corrected for each in told),
        "all_rows": _errors(told),
        "worst_job_change": round(change[worst], 4),
        "worst_job": worst,
        "by_job": jobs,
    }


def _by(told: Sequence[Judged], key: Callable[[Judged], str]) -> dict[str, Any]:
    return {
        name: _errors([each for each in told if key(each) == name])
        for name in sorted({key(each) for each in told})
    }


def _errors(told: Sequence[Judged]) -> dict[str, Any]:
    before = statistics.mean(abs(each.before) for each in told)
    after = statistics.mean(abs(each.after) for each in told)
    return {
        "error_before": round(before, 4),
        "error_after": round(after, 4),
        "ratio": round(after / before, 3),
        "rows": len(told),
    }


def _shown(each: Judged) -> dict[str, Any]:
    return {
        "source": each.row.of.source,
        "model": each.row.of.model,
        "workers": each.row.workers,
        "mbit": each.row.of.mbit,
        "plan": " + ".join(each.row.entry.strategies),
        "before": round(each.before, 4),
        "after": round(each.after, 4),
        "corrected": each.corrected,
    }


@dataclass(frozen=True)
class Moment:
    """The process that measured, and when it did."""

    run: str
    date: str

    @property
    def at_ns(self) -> int:
        return round(datetime.strptime(self.date, cells.DATE).timestamp() * 1e9)


def cell_rows() -> Iterator[Row]:
    """The cells of `retarget`: three models at rates, workers and buckets."""
    machine, jobs = recordings.machine(), recordings.graphs(cells.MODELS)
    for cell in cells.all_cells():
        seen = cells.runs(cell)
        if not seen:
            continue
        plan = (strategy("buckets", size_bytes=cell.bucket_mb * 1024 * 1024),)
        of, where = Of("cells", cell.model, cell.mbit), cells.cluster(cell.workers, cell.mbit)
        job = _Asked(of, jobs[cell.model][0], cell.workers, plan, where)
        step = cells.step_ms(seen)
        lengths = (round(1e6 * step[name]) for name in ("median", "p10", "p90"))
        measured, question = Measured(*lengths, int(step["n"])), Question(machine=machine)
        when = Moment(cell.key, seen[-1]["measured"])
        yield _row(job, measured, when, question)


def block_rows() -> Iterator[Row]:
    """The rows of `strategies` on links, and the plain steps that took turns with them; without
    those of compiled jobs, whose operators' times are not kept."""
    found, told = kept(), set[str]()
    for cell, plan in [*singles(), *pairs()]:
        row = found.get(cell.key(plan), {})
        if "step_s" not in row or not cell.mbit or "compiled" in plan:
            continue
        of = Of("strategies", cell.job.key, cell.mbit)
        graph, made = recorded(cell, compiled=False)
        where = made.applied(cells.cluster(cell.workers, cell.mbit))
        question = Question(machine=calibrated.machine(made), calibration=made)
        run = f"{cell.key(('plain',))} {row['plain_s']['median']}"
        when = Moment(run, row["measured"])
        both = (("plain_s", ()), ("step_s", plan))
        for name, texts in both[run in told :]:
            job = _Asked(of, graph, cell.workers, tuple(map(parse, texts)), where)
            try:
                yield _row(job, _block(row, name, batches_in(texts)), when, question)
            except PacelineError as error:
                print(f"{cell.key(texts)}: {error}", file=sys.stderr)
        told.add(run)


@dataclass(frozen=True, eq=False)
class _Asked:
    of: Of
    graph: Graph
    workers: int
    plan: tuple[Strategy, ...]
    cluster: Cluster

    def __call__(self, question: Question) -> Prediction:
        moved = (strategy("workers", count=self.workers),)
        same = self.workers == self.graph.world_size
        return predict(self.graph, [*moved[same:], *self.plan], self.cluster, question)


def _block(row: dict[str, Any], name: str, batches: float) -> Measured:
    """What chance alone lets the row be off by, its floor, as the spread of one step."""
    step_ns = round(1e9 * row[name]["median"] / batches)
    half = 1.28 / 1.25 * row["floor"] * step_ns
    return Measured(step_ns, round(step_ns - half), round(step_ns + half), 1)


def _row(job: _Asked, seen: Measured, when: Moment, question: Question) -> Row:
    found = job(replace(question, lean=True))
    step_ns = round(found.batch_ns)
    guess = Predicted(step_ns, found.low_ns, found.high_ns, Ground.SHARED, found.leans)
    entry = Entry(
        Kind.VERDICT,
        JobTraits(job.of.model, job.workers, job.of.source),
        when.at_ns,
        f"{job.of.source} {when.run}",
        strategies=tuple(map(str, job.plan)),
        predicted=guess,
        measured=seen,
    )
    return Row(entry, job.of, job, question)


if __name__ == "__main__":
    main()
