"""`Verdict`: a prediction beside what was then measured, by class of work."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paceline.graph import Graph
from paceline.graph.condense import condense
from paceline.machine import Pulse, PulseMoved, moved_between
from paceline.notebook import InNotebook
from paceline.predict import WORK_CLASSES, Prediction, by_class
from paceline.record import sidecar
from paceline.replay import replay
from paceline.trace.plain import plain_steps
from paceline.verify.errors import VerifyError


@dataclass(frozen=True)
class Measured:
    """Steps as they were, without instruments; `by_class` from recorded steps of the same job."""

    steps_ns: tuple[int, ...]
    by_class: Mapping[str, int]
    pulse: Pulse | None = None  # of the machine meanwhile
    machine: str = ""  # in words

    @property
    def step_ns(self) -> int:
        return round(statistics.median(self.steps_ns))

    @property
    def low_ns(self) -> int:
        return round(float(np.percentile(self.steps_ns, 10)))

    @property
    def high_ns(self) -> int:
        return round(float(np.percentile(self.steps_ns, 90)))


@dataclass(frozen=True)
class Difference:
    """One class of work, predicted and measured, in ns a step."""

    name: str
    predicted_ns: int
    measured_ns: int

    @property
    def error_ns(self) -> int:
        return self.predicted_ns - self.measured_ns


@dataclass(frozen=True)
class Verdict(InNotebook):
    """How far a prediction was off, and where. `at_pulse` is the same prediction for the pulse that
    the machine had while the steps were measured; None where a pulse is not known."""

    predicted: Prediction
    measured: Measured
    at_pulse: Prediction | None = None

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted.step_ns / self.measured.step_ns - 1

    @property
    def error_at_pulse(self) -> float | None:
        """What is left of the error once the machine's own speed is told apart."""
        if self.at_pulse is None:
            return None
        return self.at_pulse.step_ns / self.measured.step_ns - 1

    @property
    def pulse_moved(self) -> PulseMoved | None:
        """How far the machine moved between the recording and the measured steps."""
        return moved_between(self.predicted.pulse, self.measured.pulse)

    @property
    def within(self) -> bool:
        """The measured median lies in the predicted interval."""
        return self.predicted.low_ns <= self.measured.step_ns <= self.predicted.high_ns

    @property
    def differences(self) -> tuple[Difference, ...]:
        """By class, the largest error first. Classes of the step's sum, then hidden ones."""
        names = [*WORK_CLASSES, "exposed", "communication"]
        found = [
            Difference(n, self.predicted.by_class.get(n, 0), self.measured.by_class.get(n, 0))
            for n in names
        ]
        present = [d for d in found if d.predicted_ns or d.measured_ns]
        return tuple(sorted(present, key=lambda d: -abs(d.error_ns)))


def measured_run(folder: Path, graph: Graph) -> Measured:
    """What a recording of a job shows: its un-instrumented steps, and its work by class."""
    sidecars = [sidecar.read(path) for path in sorted(folder.glob("rank-*.facts.jsonl"))]
    steps = plain_steps(sidecars)
    if not steps:
        raise VerifyError(
            f"{folder} has no un-instrumented steps to compare with; let the job run at least 25 "
            "steps, or record fewer (--steps)"
        )
    classes = recorded_classes(graph)
    work = sum(classes[name] for name in WORK_CLASSES)
    middle = round(statistics.median(steps))
    by_class = {**classes, "exposed": max(0, middle - work)}
    hosts = sidecars[0].of(sidecar.RecordedHost)
    return Measured(tuple(steps), by_class, graph.facts.pulse, hosts[0].machine if hosts else "")


def recorded_classes(graph: Graph) -> dict[str, int]:
    """A mean worker's recorded step by class, in ns: of the typical step, as recorded."""
    return by_class(replay(condense(graph)))
