"""Hardware and placement together: the template and the plans that train the given models fastest.

Templates are met in buckets of about equal area, largest first; the search stops when none of the
last few buckets improved (PHAZE's rule). A template is only planned where a bound says that it
could win (`bounds.py`), and only as far as plans are about as fast as the best so far. Greedy
schedules price the search; the finalists' layers are then scheduled by CP-SAT.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from math import inf, prod

from paceline.place.hardware.bounds import least_seconds
from paceline.place.hardware.models import Chained, LayerDemand
from paceline.place.hardware.plan import (
    GIB,
    NOTHING_FITS,
    AcceleratorFleet,
    LayerTimes,
    ModelPlan,
    best_plan,
    layers_of,
)
from paceline.place.hardware.schedule import Workload, optimal, workload
from paceline.place.hardware.table import LayerTable
from paceline.place.hardware.template import AREA_LIMIT_UM2, CLOCK_HZ, Template, templates


@dataclass(frozen=True)
class SearchProgress:
    """How far the walk is."""

    area_um2: float
    considered: int
    samples_per_s: float

    def __str__(self) -> str:
        return (
            f"{self.considered:,} designs down to {self.area_um2 / 1e6:.0f} mm2, "
            f"best {self.samples_per_s:,.0f} samples/s"
        )


def unwatched(progress: SearchProgress) -> None:
    """Nobody is told."""


@dataclass(frozen=True)
class SearchSettings:
    """How far to look."""

    area_limit_um2: float = AREA_LIMIT_UM2
    hbm_gib: int = 32
    bucket_um2: float = AREA_LIMIT_UM2 / 200
    patience: int = 5  # buckets without improvement
    seconds: float = 120.0  # of the walk; the finalists come after it
    near: float = 0.1  # of the best score: as much less, and CP-SAT may still win
    finalists: int = 100  # scheduled at the micro-batches of their greedy plans
    winners: int = 8  # of these, at every micro-batch
    effort: float = 0.05  # of CP-SAT, a layer and direction, in its deterministic seconds
    watch: Callable[[SearchProgress], None] = unwatched  # told after each bucket


@dataclass(frozen=True)
class Design:
    """A template with one plan a model."""

    template: Template
    plans: tuple[ModelPlan, ...]

    def score(self, fleet: AcceleratorFleet) -> float:
        """Geometric mean of samples per second; 0 where a model does not fit."""
        return _mean([plan.samples_per_s(fleet) for plan in self.plans])


@dataclass(frozen=True)
class SearchResult:
    """What was found, and how much was looked at."""

    best: Design
    considered: int
    planned: int
    refined: int  # finalists whose layers CP-SAT scheduled
    buckets: int
    stopped: str
    seconds: float
    history: tuple[tuple[float, float], ...]  # (area of a bucket, best score so far)


def search(
    models: tuple[Chained, ...],
    fleet: AcceleratorFleet | None = None,
    settings: SearchSettings | None = None,
    start: Iterable[Template] = (),
) -> SearchResult:
    """The best design found; never worse than the `start` templates with their best plans."""
    fleet, settings, began = (
        fleet or AcceleratorFleet(),
        settings or SearchSettings(),
        time.perf_counter(),
    )
    table = LayerTable(models, fleet)
    found = [design(models, template, fleet, table.times(template)[1]) for template in start]
    best = max((made.score(fleet) for made in found), default=0.0)
    started = len(found)
    considered = idle = buckets = 0
    stopped, history = "every bucket was seen", []
    for area, bucket in _buckets(settings):
        before = best
        for ceiling, template, times in _promising(models, bucket, fleet, table):
            if time.perf_counter() - began > settings.seconds:
                break
            considered += 1
            beat = best * (1 - settings.near)
            if ceiling <= beat:
                continue
            found.append(design(models, template, fleet, times, beat))
            best = max(best, found[-1].score(fleet))
        buckets += 1
        history.append((area, best))
        settings.watch(SearchProgress(area, considered, best))
        idle = 0 if best > before else idle + 1
        if idle >= settings.patience:
            stopped = f"{idle} buckets without improvement"
            break
        if time.perf_counter() - began > settings.seconds:
            stopped = f"the limit of {settings.seconds:g} s"
            break
    final, refined = _refined(models, fleet, settings, found, started)
    seconds = time.perf_counter() - began
    planned = len(found) - started
    return SearchResult(
        final, considered, planned, refined, buckets, stopped, seconds, tuple(history)
    )


def design(
    models: tuple[Chained, ...],
    template: Template,
    fleet: AcceleratorFleet,
    times: LayerTimes,
    beat: float = 0.0,
) -> Design:
    """One template with the best plan of each model, micro-batches in the order of what each could
    reach at best; those that cannot score above `beat` (for one model) are not planned."""
    enough = fleet.global_batch / beat if beat and len(models) == 1 else inf
    plans = []
    for model in models:
        best, limit = NOTHING_FITS, enough
        for least, batch in sorted(
            (least_seconds(model, batch, fleet, times), batch) for batch in fleet.micro_batches
        ):
            if least >= limit:
                break
            layers = layers_of(model, batch, fleet, template.hbm_gib * GIB, times)
            made = best_plan(replace(layers, beat_s=limit), batch)
            best = min(best, made, key=lambda plan: plan.seconds)
            limit = min(limit, best.seconds)
        plans.append(best)
    return Design(template, tuple(plans))


def layer_times(template: Template, makespan: Callable[[Workload], int]) -> LayerTimes:
    """Forward and backward seconds of a layer, remembered."""

    @cache
    def times(layer: LayerDemand) -> tuple[float, float]:
        forward, backward = (
            makespan(workload(ops, template)) / CLOCK_HZ for ops in (layer.forward, layer.backward)
        )
        return forward, backward

    return times


def _refined(
    models: tuple[Chained, ...],
    fleet: AcceleratorFleet,
    settings: SearchSettings,
    found: list[Design],
    started: int,
) -> tuple[Design, int]:
    """The best once CP-SAT has scheduled layers, and for how many templates it did: the start
    templates, and the finalists, each at the micro-batches of its plans, the best at all."""

    def exact(made: Design, within: AcceleratorFleet) -> Design:
        times = layer_times(made.template, lambda work: optimal(work, settings.effort))
        return design(models, made.template, within, times)

    def own(made: Design) -> AcceleratorFleet:
        return replace(fleet, micro_batches=tuple(sorted({p.micro_batch for p in made.plans})))

    def score(made: Design) -> float:
        return made.score(fleet)

    final = [exact(made, own(made)) for made in _best(models, fleet, settings, found[started:])]
    winners = sorted(final, key=score, reverse=True)[: settings.winners]
    whole = [exact(made, fleet) for made in found[:started] + winners]
    return max([*found, *final, *whole], key=score), len(final) + started


def _best(
    models: tuple[Chained, ...],
    fleet: AcceleratorFleet,
    settings: SearchSettings,
    found: list[Design],
) -> list[Design]:
    """The designs near the best, highest score first; of equal ones first those that could gain the
    most, by lower bounds of all schedules."""
    table = LayerTable(models, fleet)
    enough = (1 - settings.near) * max((made.score(fleet) for made in found), default=0.0)
    near = [made for made in found if made.score(fleet) >= enough > 0]

    def hope(made: Design) -> tuple[float, float]:
        return -made.score(fleet), -_ceiling(models, fleet, table.times(made.template)[0])

    return sorted(near, key=hope)[: settings.finalists]


def _buckets(settings: SearchSettings) -> Iterator[tuple[float, list[Template]]]:
    """Templates by area, largest first."""

    def bucket(template: Template) -> int:
        return int(template.area_um2 // settings.bucket_um2)

    made = sorted(templates(settings.area_limit_um2, settings.hbm_gib), key=bucket, reverse=True)
    for number, members in groupby(made, key=bucket):
        yield number * settings.bucket_um2, list(members)


def _promising(
    models: tuple[Chained, ...], bucket: list[Template], fleet: AcceleratorFleet, table: LayerTable
) -> Iterator[tuple[float, Template, LayerTimes]]:
    """The templates of a bucket with the score that none of their plans exceeds, and the times of
    their layers; the highest score first."""
    rows = []
    for template in bucket:
        times = table.times(template)[1]
        rows.append((_ceiling(models, fleet, times), template, times))
    yield from sorted(rows, key=lambda row: -row[0])


def _ceiling(models: tuple[Chained, ...], fleet: AcceleratorFleet, times: LayerTimes) -> float:
    """No design with these times of layers scores higher."""
    least = [
        min(least_seconds(model, batch, fleet, times) for batch in fleet.micro_batches)
        for model in models
    ]
    return _mean([fleet.global_batch / seconds for seconds in least])


def _mean(rates: list[float]) -> float:
    """Geometric mean."""
    return float(prod(rates) ** (1 / len(rates)))
