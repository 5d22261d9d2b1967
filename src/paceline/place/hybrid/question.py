"""`PlanQuestion`: what is to be planned, and what a plan may choose from."""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from paceline.cost.decoder import DecoderPrices, Site, Timed
from paceline.cost.forecast import Constants
from paceline.graph.schedules import Schedule
from paceline.imagine.decoder import (
    MEGATRON,
    Decoder,
    DecoderJob,
    Habits,
    Precision,
    Recipe,
    Sharding,
)
from paceline.imagine.transformer import Degrees, Recompute
from paceline.place.operators.problem import PlacementError


@dataclass(frozen=True)
class Allowed:
    """Settings that a plan may have; degrees are all divisors that the model allows."""

    micro_batches: tuple[int, ...] = (1, 2, 4, 8)
    schedules: tuple[Schedule, ...] = (Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED)
    chunks: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 12)
    shardings: tuple[Sharding, ...] = (Sharding.OPTIMIZER, Sharding.FULL, Sharding.HYBRID)
    recomputes: tuple[Recompute, ...] = tuple(Recompute)
    least_context: int = 2048  # tokens of a sequence that a context rank has at least


@dataclass(frozen=True)
class PlanQuestion:
    """A model's training on a site. `reserve` is the part of the memory that is to stay free. What
    was `timed` in a recording is kept as it is."""

    model: Decoder
    site: Site
    global_batch: int
    sequence: int = 0
    precision: Precision = Precision.BF16
    habits: Habits = field(default=MEGATRON)
    allowed: Allowed = field(default_factory=Allowed)
    reserve: float = 0.0
    factor: float = 0.0  # by how much kernels take longer than forecast; 0 is as is usual
    timed: Timed | None = None
    constants: Constants | None = None  # of forecasts, in place of the shipped ones

    def __post_init__(self) -> None:
        if self.global_batch < 1:
            raise PlacementError(f"a batch of {self.global_batch} sequences; give 1 or more")
        if not 0 <= self.reserve < 1:
            raise PlacementError(
                f"a reserve of {self.reserve:g} of the memory; give a share from 0 to below 1"
            )
        if self.site.device.memory_bytes <= 0:
            raise PlacementError(
                f"device {self.site.device.name} has no memory; give it one in the cluster's file"
            )

    @property
    def memory_bytes(self) -> float:
        return self.site.device.memory_bytes * (1 - self.reserve)

    def prices(self) -> DecoderPrices:
        factor = self.factor or self.habits.factor
        return DecoderPrices(self.site, factor, self.constants, self.timed)

    def recipe(self, **settings: Any) -> Recipe:
        asked = Recipe(
            self.global_batch, sequence=self.sequence, precision=self.precision, habits=self.habits
        )
        return replace(asked, **settings)

    def job(self, degrees: Degrees, **settings: Any) -> DecoderJob:
        """A job of these degrees; refuses what does not divide, with the reason."""
        return DecoderJob(self.model, degrees, self.recipe(**settings))


AXES: Final = ("tensor", "pipeline", "context", "expert", "micro_batch", "chunks", "sharding",
               "recompute")  # fmt: skip
"""What tells plans of one question apart; the data degree follows."""


def settings_of(job: DecoderJob) -> dict[str, object]:
    """A plan by its axes."""
    d, r = job.degrees, job.recipe
    values = (d.tensor, d.pipeline, d.sequence, d.expert, r.micro_batch, r.chunks, r.sharding,
              _recompute(r))  # fmt: skip
    return dict(zip(AXES, values))


def spelled(job: DecoderJob) -> str:
    """A plan in one line, as `--own` reads it; what is usual is left out."""
    d, r = job.degrees, job.recipe
    counts = {"tp": d.tensor, "pp": d.pipeline, "cp": d.sequence, "ep": d.expert,
              "mbs": r.micro_batch, "vp": r.chunks}  # fmt: skip
    parts = [f"dp={d.data}", *(f"{name}={count}" for name, count in counts.items() if count > 1)]
    parts += [ZERO[r.sharding]] if r.sharding is not Sharding.OPTIMIZER else []
    parts += [f"recompute={_recompute(r)}"] if r.recompute is not Recompute.NONE else []
    return ",".join(parts)


def _recompute(recipe: Recipe) -> str:
    """What is recomputed, and of how many layers of a chunk where it is not all."""
    what = recipe.recompute.value
    return f"{what}:{recipe.recomputed}" if recipe.recomputed else what


ZERO: Final = {
    Sharding.NONE: "zero=0",
    Sharding.OPTIMIZER: "zero=1",
    Sharding.GRADIENTS: "zero=2",
    Sharding.FULL: "zero=3",
    Sharding.HYBRID: "sharding=hybrid",
}
