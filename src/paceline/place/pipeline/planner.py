"""PipeDream-2BW's planner: width, depth, micro-batch and recomputation (algorithm 1).

For each width w and depth d with w d devices it takes the largest micro-batch that fits, with and
without recomputation, and keeps the plan of the highest throughput. Other schedules are planned in
the same way, with their own memory and time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.place.pipeline.errors import PlanError
from paceline.place.pipeline.formulas import PipelinePlan, Wires, memory_bytes, step_ns
from paceline.place.pipeline.price import Priced, price
from paceline.place.pipeline.profile import PipelineProfile
from paceline.runtime.stages import PipelineError, PipelineSchedule, Shape, check


@dataclass(frozen=True)
class Fleet:
    """The devices: how many, how much memory each has, how many share a server's fast links."""

    devices: int
    memory_bytes: float
    bytes_per_s: float  # between servers
    inside_bytes_per_s: float  # within a server
    per_server: int = 1
    latency_ns: int = 0

    def __post_init__(self) -> None:
        if self.devices < 1 or self.per_server < 1:
            raise PlanError(f"{self.devices} devices, {self.per_server} a server: give 1 or more")
        if min(self.memory_bytes, self.bytes_per_s, self.inside_bytes_per_s) <= 0:
            raise PlanError("memory and link rates must be above zero")

    def wires(self, width: int, stages: int) -> Wires:
        """Stages of one replica sit together, as far as a server goes; replicas likewise."""
        return Wires(
            self.inside_bytes_per_s if stages <= self.per_server else self.bytes_per_s,
            self.inside_bytes_per_s if width < self.per_server else self.bytes_per_s,
            self.latency_ns,
        )


@dataclass(frozen=True)
class Search:
    """What is looked for: the global batch and the schedules that may be used."""

    global_batch: int
    schedules: Sequence[PipelineSchedule] = tuple(PipelineSchedule)
    chunks: int = 2  # of layers a stage, for the interleaved schedule
    best: int = 12  # so many plans, the fastest by the formula, are replayed too


def plan_pipeline(profile: PipelineProfile, fleet: Fleet, search: Search) -> list[Priced]:
    """The best plans that fit, fastest by the formula first; an error says why there is none."""
    tried = list(candidates(profile, fleet, search))
    if not tried:
        raise PlanError(
            f"no width and depth up to {fleet.devices} devices cuts {profile.layers} layers evenly "
            f"and a global batch of {search.global_batch} into micro-batches of "
            f"{sorted(profile.sizes)}, with as many micro-batches as its schedule needs"
        )
    fitting = largest_that_fit(profile, fleet, tried)
    if not fitting:
        least = min(_memory(profile, plan) for plan in tried)
        raise PlanError(
            f"no plan fits into {fleet.memory_bytes:.4g} bytes; the leanest needs {least:.4g} a "
            "device. Use more devices, smaller micro-batches or allow recomputation."
        )
    fastest = sorted(fitting, key=lambda plan: -_samples_per_s(profile, fleet, plan))
    return [_price(profile, fleet, plan) for plan in fastest[: search.best]]


def candidates(profile: PipelineProfile, fleet: Fleet, search: Search) -> Iterator[PipelinePlan]:
    """All plans that can be run, whether they fit or not."""
    for schedule in search.schedules:
        chunks = search.chunks if schedule is PipelineSchedule.INTERLEAVED else 1
        for width in range(1, fleet.devices + 1):
            for depth in range(1, fleet.devices // width + 1):
                turns = depth > 1 or chunks == 1  # one stage alone has nothing to interleave
                if turns and profile.layers % (depth * chunks) == 0:
                    yield from _batched(schedule, (width, depth, chunks), profile, search)


def largest_that_fit(
    profile: PipelineProfile, fleet: Fleet, plans: Sequence[PipelinePlan]
) -> list[PipelinePlan]:
    """For each schedule, width, depth and recomputation the largest micro-batch that fits."""
    best: dict[tuple[object, ...], PipelinePlan] = {}
    for plan in plans:
        if _memory(profile, plan) <= fleet.memory_bytes:
            key = (plan.schedule, plan.width, plan.shape.stages, plan.recompute)
            if key not in best or plan.microbatch > best[key].microbatch:
                best[key] = plan
    return list(best.values())


def _batched(
    schedule: PipelineSchedule, cut: tuple[int, int, int], profile: PipelineProfile, search: Search
) -> Iterator[PipelinePlan]:
    width, depth, chunks = cut
    for size in sorted(profile.sizes):
        count, rest = divmod(search.global_batch, width * size)
        if rest or not count:
            continue
        shape = Shape(depth, count, chunks)
        if _runs(schedule, shape):
            yield PipelinePlan(schedule, shape, size, width, recompute=False)
            yield PipelinePlan(schedule, shape, size, width, recompute=True)


def _runs(schedule: PipelineSchedule, shape: Shape) -> bool:
    try:
        check(schedule, shape)
    except PipelineError:
        return False
    return True


def _memory(profile: PipelineProfile, plan: PipelinePlan) -> int:
    return max(memory_bytes(plan, profile.stages(plan.microbatch, plan.shape.stages)))


def _samples_per_s(profile: PipelineProfile, fleet: Fleet, plan: PipelinePlan) -> float:
    stages = profile.stages(plan.microbatch, plan.shape.stages)
    wires = fleet.wires(plan.width, plan.shape.stages)
    return plan.global_batch * 1e9 / step_ns(plan, stages, wires)


def _price(profile: PipelineProfile, fleet: Fleet, plan: PipelinePlan) -> Priced:
    stages = profile.stages(plan.microbatch, plan.shape.stages)
    return price(plan, stages, fleet.wires(plan.width, plan.shape.stages))
