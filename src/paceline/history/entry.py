"""`Entry`: one thing that happened to a job, with what was predicted and what was measured."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from paceline.predict import Leaning


class Kind(Enum):
    """What happened."""

    RECORDING = "recording"
    PREDICTION = "prediction"
    TRIAL = "trial"  # a plan was tried in the live job
    VERDICT = "verdict"  # a prediction was set beside what was measured


class Ground(Enum):
    """What a prediction was made for. Predictions of different ground err in different ways."""

    RECORDED = "recorded"  # communication takes what it took
    CLUSTER = "cluster"  # each worker has its own machine
    SHARED = "shared"  # all workers share one machine's cores, as in the lab


@dataclass(frozen=True)
class JobTraits:
    """What makes jobs alike: the model and the number of workers, and the machine that runs it: of
    a recording its own, of a verdict that on which it was measured. It is "" where a graph does
    not tell it."""

    model: str  # digest of the parameters' names and sizes, as plans have it
    world_size: int
    machine: str = ""


@dataclass(frozen=True)
class Predicted:
    """A prediction, as far as it is kept."""

    step_ns: int
    low_ns: int
    high_ns: int
    ground: Ground = Ground.RECORDED
    leans: Leaning | None = None
    corrected_work: float = 1.0  # the correction that is in it
    corrected_communication: float = 1.0
    by_class: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """Steps without instruments."""

    step_ns: int  # the median
    low_ns: int  # p10
    high_ns: int  # p90
    steps: int
    by_class: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One line of the history."""

    kind: Kind
    job: JobTraits
    at_ns: int  # Unix time
    run: str = ""  # what one process measured: the folder of a recording, a trial's name
    name: str = ""  # of the job, for people: its command
    place: str = ""  # what it ran on, or was predicted for, in words
    strategies: tuple[str, ...] = ()
    predicted: Predicted | None = None
    measured: Measured | None = None
    outcome: str = ""  # of a trial: kept, rejected, inconclusive, failed: why
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def error(self) -> float | None:
        """Predicted over measured, less one."""
        if self.predicted is None or self.measured is None or not self.measured.step_ns:
            return None
        return self.predicted.step_ns / self.measured.step_ns - 1
