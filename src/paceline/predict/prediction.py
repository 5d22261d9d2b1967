"""`Question` and `Prediction`: what is asked of a job besides changes, and the answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from paceline.cluster.machine import Machine
from paceline.cost import Prices
from paceline.cost.forecast import Constants
from paceline.machine import Pulse
from paceline.measure import Calibration
from paceline.notebook import InNotebook
from paceline.predict.correction import Correction, Leaning
from paceline.predict.memory import PeakMemory
from paceline.predict.run import Replayer
from paceline.replay import Distribution, Timeline
from paceline.replay.memory_by_rank import rank_peaks


@dataclass(frozen=True)
class Question:
    """What a prediction is to take into account.

    All workers share the cores of `machine`, as in the lab; `calibration.shared.machine()` is one
    that was measured. Without a machine each worker has its own, and the calibration's library and
    overlap hold; shared cores slow what overlaps by themselves. Recorded work is brought to the
    `pulse` that the machine has at another moment. With `shaped_links` messages between stages
    cross the cluster's links one by one, as they do in the lab, where otherwise each takes its
    closed form's time. Priced ops take longer or shorter by the `correction`, which earlier runs of
    the job taught. Forecasts go by the `constants`, by the shipped ones where there are none.
    `here` names the machine that runs the job, so that a calibration of another one is told.
    """

    machine: Machine | None = None
    calibration: Calibration | None = None
    draws: int = 0  # steps drawn from recorded durations, beside the one of their medians
    seed: int = 0
    pulse: Pulse | None = None
    shaped_links: bool = False
    correction: Correction | None = None
    lean: bool = False  # find what the step hangs on, too
    constants: Constants | None = None
    here: str = ""  # as `paceline.machine.this_machine` says it; "": not known


@dataclass(frozen=True, eq=False)
class Prediction(InNotebook):
    """A step's time. From `low_ns` to `high_ns` every op errs by what is typical of its basis and
    class (`cost.spreads`); how often that holds the truth was tested on pairs of GPUs alone.
    `by_class` splits a mean worker's step."""

    step_ns: int
    low_ns: int
    high_ns: int
    by_class: Mapping[str, int]
    rests_on: tuple[str, ...]
    workers: int
    timeline: Timeline
    drawn: Distribution | None = None
    pulse: Pulse | None = None  # of the machine, for which the work holds; None: not known
    samples: float = 1.0  # in a worker's step, as a multiple of the recorded step's
    leans: Leaning | None = None  # None: not asked for
    correction: Correction | None = None  # that is in the step
    prices: Prices | None = None  # what each op takes before others slow it
    run: Replayer | None = None  # how its ops were replayed, and what they share

    @property
    def batch_ns(self) -> float:
        """For as many samples of a worker as its recorded step has: by this, plans with other
        batches compare. More workers bring more samples, and not to a worker."""
        return self.step_ns / self.samples

    def __str__(self) -> str:
        low, high = self.low_ns / 1e6, self.high_ns / 1e6
        return (
            f"a step of {self.step_ns / 1e6:,.1f} ms on {self.workers} workers "
            f"(typical error: {low:,.1f} to {high:,.1f} ms)"
            + (f", {self.batch_ns / 1e6:,.1f} ms for a recorded batch" * (self.samples != 1))
        )

    @cached_property
    def memory(self) -> PeakMemory | None:
        """None where the graph does not tell what ops allocate: recordings of older versions, and
        traces of other tools without the allocator's events."""
        found = rank_peaks(self.timeline)
        return PeakMemory(found) if found else None

    @property
    def spread(self) -> float:
        """Half the interval as a share of the step."""
        return (self.high_ns - self.low_ns) / 2 / max(1, self.step_ns)
