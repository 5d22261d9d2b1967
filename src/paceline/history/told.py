"""What commands tell the history: entries made of recordings, predictions and verdicts."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from paceline.cluster import Cluster
from paceline.graph import Graph
from paceline.history.entry import Entry, Ground, JobTraits, Kind, Measured, Predicted
from paceline.predict import Correction, Prediction, Question
from paceline.record import sidecar
from paceline.record.job import JOB_NAME, job_of
from paceline.strategies import Strategy, name_of
from paceline.strategies.plan import digest
from paceline.trace.plain import plain_steps
from paceline.verify import Measured as Steps
from paceline.verify import Verdict

FACTS = "rank-*.facts.jsonl"


@dataclass(frozen=True, eq=False)
class Subject:
    """A recorded job under changes, where they are made: what a prediction is of."""

    graph: Graph
    run: Path
    changes: tuple[Strategy, ...]
    cluster: Cluster | None
    question: Question

    @property
    def strategies(self) -> tuple[str, ...]:
        """How many workers there are tells the job."""
        return tuple(str(c) for c in self.changes if name_of(type(c)) != "workers")

    @property
    def ground(self) -> Ground:
        if self.cluster is None:
            return Ground.RECORDED
        return Ground.CLUSTER if self.question.machine is None else Ground.SHARED

    def job(self, workers: int) -> JobTraits:
        sizes = [(p.name, p.size_bytes) for p in self.graph.facts.parameters]
        shared = self.question.here if self.question.machine is not None else ""
        machine = shared or machine_of(self.run)
        return JobTraits(digest(sizes) if sizes else "", workers, machine)


def recording_entry(folder: Path) -> Entry | None:
    """A recording as it ended; None where nothing was recorded."""
    told = [sidecar.read(path) for path in sorted(folder.glob(FACTS))]
    if not told:
        return None
    sizes = [(p.name, p.size_bytes * p.shards) for p in told[0].of(sidecar.Parameter)]
    hosts = told[0].of(sidecar.RecordedHost)
    job = JobTraits(digest(sizes) if sizes else "", hosts[0].world_size if hosts else len(told),
              machine_of(folder))  # fmt: skip
    steps = plain_steps(told)
    name, run = named(folder), str(folder.resolve())
    return Entry(Kind.RECORDING, job, time.time_ns(), run, name, measured=_plain(steps))


def prediction_entry(subject: Subject, found: Prediction) -> Entry:
    return _entry(Kind.PREDICTION, subject, found)


def verdict_entry(subject: Subject, verdict: Verdict) -> Entry:
    """A prediction and what was measured for it, filed under the machine that was measured."""
    made = _entry(Kind.VERDICT, subject, verdict.predicted, _seen(verdict.measured))
    machine = verdict.measured.machine or made.job.machine
    return replace(made, job=replace(made.job, machine=machine))


def trial_entry(subject: Subject, found: Prediction, seen: Steps | None, outcome: str) -> Entry:
    """A plan tried in the live job; None where it did not run to an end."""
    made = _entry(Kind.TRIAL, subject, found, _seen(seen) if seen else None)
    return replace(made, outcome=outcome)


def _seen(seen: Steps) -> Measured:
    by_class = dict(seen.by_class)
    return Measured(seen.step_ns, seen.low_ns, seen.high_ns, len(seen.steps_ns), by_class)


def machine_of(run: Path) -> str:
    """The machine of a recording, in words; "" where the folder does not tell."""
    host = _host_of(run)
    return host.machine if host else ""


def host_machine_of(run: Path) -> str:
    """The same by its processor, with which calibrations are compared."""
    host = _host_of(run)
    return host.host_machine if host else ""


def _host_of(run: Path) -> sidecar.RecordedHost | None:
    first = next(iter(sorted(run.glob(FACTS))), None) if run.is_dir() else None
    hosts = sidecar.read(first).of(sidecar.RecordedHost) if first else []
    return hosts[0] if hosts else None


def named(run: Path) -> str:
    """What people call the job: its command."""
    if not (run / JOB_NAME).is_file():
        return run.name
    return " ".join(job_of(run).command)


def _entry(
    kind: Kind, subject: Subject, found: Prediction, measured: Measured | None = None
) -> Entry:
    moment = time.time_ns()
    run = str(subject.run.resolve())
    return Entry(
        kind,
        subject.job(found.workers),
        moment,
        f"{run}, {_date(moment)}" if measured else run,
        named(subject.run),
        _place(subject),
        subject.strategies,
        _predicted(subject, found),
        measured,
    )


def _date(moment_ns: int) -> str:
    return datetime.fromtimestamp(moment_ns / 1e9).isoformat(" ", "seconds")


def _predicted(subject: Subject, found: Prediction) -> Predicted:
    by = found.correction or Correction()
    return Predicted(
        found.step_ns,
        found.low_ns,
        found.high_ns,
        subject.ground,
        found.leans,
        by.work,
        by.communication,
        dict(found.by_class),
    )


def _place(subject: Subject) -> str:
    if subject.cluster is None:
        return ""
    rate = subject.cluster.link.up_bytes_per_s * 8 / 1e6
    return f"{subject.cluster.name}, {rate:g} Mbit/s"


def _plain(steps: Sequence[int]) -> Measured | None:
    if not steps:
        return None
    low, high = np.percentile(steps, [10, 90])
    return Measured(round(statistics.median(steps)), round(low), round(high), len(steps))
