"""What an assistant may ask, each question a function with a typed answer. Times are in ms."""

from dataclasses import dataclass
from pathlib import Path

from paceline.cluster import load
from paceline.compare import diff, side_of
from paceline.predict import predict
from paceline.replay import replay
from paceline.report.run import summarise_run
from paceline.report.summary import summarise
from paceline.report.text.difference_words import cause_words, verdict_line
from paceline.report.text.headline import headline
from paceline.trace.runs import open_run

_MS = 1e6


@dataclass(frozen=True)
class OnPath:
    """Ops of one name on the critical path."""

    name: str
    kind: str
    time_ms: float


@dataclass(frozen=True)
class Shown:
    """Where the steps of a run go."""

    headline: str
    step_ms: float  # the median of the recorded ones
    spread: float  # from the 10th to the 90th percentile, over the median
    ranks: int
    critical_path_ms: dict[str, float]  # by kind, of all recorded steps
    weighs_most: list[OnPath]
    notes: list[str]


@dataclass(frozen=True)
class Predicted:
    """A step after changes; `low_ms` to `high_ms` is a typical error."""

    step_ms: float
    low_ms: float
    high_ms: float
    workers: int
    by_class_ms: dict[str, float]
    rests_on: list[str]


@dataclass(frozen=True)
class Caused:
    """A part of a difference."""

    kind: str
    words: str
    time_ms: float


@dataclass(frozen=True)
class Differed:
    """Why one run is slower than another."""

    verdict: str
    words: str
    before_ms: float
    after_ms: float
    noise: float  # as a share of a step
    causes: list[Caused]


def show(run: str) -> Shown:
    """Where a step's time goes: critical path, what weighs most on it, spread of the steps."""
    timeline = replay(open_run(Path(run)))
    summary, recorded = summarise(timeline), summarise_run(timeline)
    return Shown(
        headline(summary),
        recorded.median_step_ns / _MS,
        recorded.spread,
        summary.ranks,
        {kind: ns / _MS for kind, ns in summary.path_by_kind.items()},
        [OnPath(row.name, row.kind, row.share_ns / _MS) for row in summary.path_ops],
        list(recorded.notes),
    )


def predicted(run: str, changes: list[str], cluster: str = "") -> Predicted:
    """How long a step takes after changes, such as `buckets(size_bytes=4194304)` or
    `workers(count=8)`, on a cluster (a YAML file) or, without one, where it was recorded."""
    found = predict(open_run(Path(run)), changes, load(Path(cluster)) if cluster else None)
    return Predicted(
        found.step_ns / _MS,
        found.low_ns / _MS,
        found.high_ns / _MS,
        found.workers,
        {name: ns / _MS for name, ns in found.by_class.items()},
        list(found.rests_on),
    )


def differed(before: str, after: str) -> Differed:
    """Why the second run is slower or faster than the first: causes by what changed most, tested
    against the spread of each run's steps."""
    found = diff(side_of(before), side_of(after))
    return Differed(
        found.verdict.value,
        verdict_line(found),
        found.before_ns / _MS,
        found.after_ns / _MS,
        found.noise,
        [Caused(c.kind.value, cause_words(c), c.share_ns / _MS) for c in found.causes],
    )
