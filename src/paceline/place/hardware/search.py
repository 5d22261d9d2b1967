"""Hardware and placement together: the template and the plans that train the given models fastest.

Templates are met in buckets of about equal area, largest first; the search stops when none of the
last few buckets improved (PHAZE's rule). A template is only planned where a bound says that it
could win: each layer at a lower bound of its makespan, shared out perfectly over all devices.
Greedy schedules price the search; the finalists' layers are then scheduled by CP-SAT.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import ceil, inf, prod

from paceline.place.hardware.models import Layer, Model, chain
from paceline.place.hardware.plan import (
    GIB,
    NOTHING_FITS,
    Fleet,
    LayerTimes,
    Plan,
    best_plan,
    layers_of,
)
from paceline.place.hardware.schedule import (
    Workload,
    greedy,
    lower_bound,
    optimal,
    workload,
)
from paceline.place.hardware.template import AREA_LIMIT_UM2, CLOCK_HZ, Template, templates


@dataclass(frozen=True)
class Settings:
    """How far to look."""

    area_limit_um2: float = AREA_LIMIT_UM2
    hbm_gib: int = 32
    bucket_um2: float = AREA_LIMIT_UM2 / 200
    patience: int = 5  # buckets without improvement
    seconds: float = 80.0
    finalists: int = 2
    effort: float = 0.05  # of CP-SAT, a layer and direction, in its deterministic seconds


@dataclass(frozen=True)
class Design:
    """A template with one plan a model."""

    template: Template
    plans: tuple[Plan, ...]

    def score(self, fleet: Fleet) -> float:
        """Geometric mean of samples per second; 0 where a model does not fit."""
        return _mean([plan.samples_per_s(fleet) for plan in self.plans])


@dataclass(frozen=True)
class Search:
    """What was found, and how much was looked at."""

    best: Design
    considered: int
    planned: int
    buckets: int
    stopped: str
    seconds: float
    history: tuple[tuple[float, float], ...]  # (area of a bucket, best score so far)


def search(
    models: tuple[Model, ...],
    fleet: Fleet | None = None,
    settings: Settings | None = None,
    start: Iterable[Template] = (),
) -> Search:
    """The best design found; never worse than the `start` templates with their best plans."""
    fleet, settings, began = fleet or Fleet(), settings or Settings(), time.perf_counter()
    found = [design(models, template, fleet, greedy) for template in start]
    best = max((made.score(fleet) for made in found), default=0.0)
    started = len(found)
    considered = idle = buckets = 0
    stopped, history = "every bucket was seen", []
    for area, bucket in _buckets(settings):
        before = best
        for template in sorted(bucket, key=lambda t: -_promise(models, t, fleet)):
            if time.perf_counter() - began > settings.seconds:
                break
            considered += 1
            if _ceiling(models, template, fleet) <= best:
                continue
            found.append(design(models, template, fleet, greedy, best))
            best = max(best, found[-1].score(fleet))
        buckets += 1
        history.append((area, best))
        idle = 0 if best > before else idle + 1
        if idle >= settings.patience:
            stopped = f"{idle} buckets without improvement"
            break
        if time.perf_counter() - began > settings.seconds:
            stopped = f"the limit of {settings.seconds:g} s"
            break
    final = _refined(models, fleet, settings, found, started)
    seconds = time.perf_counter() - began
    planned = len(found) - started
    return Search(final, considered, planned, buckets, stopped, seconds, tuple(history))


def design(
    models: tuple[Model, ...],
    template: Template,
    fleet: Fleet,
    makespan: Callable[[Workload], int],
    beat: float = 0.0,
) -> Design:
    """One template with the best plan of each model, micro-batches in the order of what each could
    reach at best; those that cannot score above `beat` (for one model) are not planned."""
    bound, times = layer_times(template, lower_bound), layer_times(template, makespan)
    enough = fleet.global_batch / beat if beat and len(models) == 1 else inf
    plans = []
    for model in models:
        best = NOTHING_FITS
        for least, batch in sorted(
            (_least(model, batch, fleet, bound), batch) for batch in fleet.micro_batches
        ):
            if least >= min(best.seconds, enough):
                break
            if _least(model, batch, fleet, times) >= min(best.seconds, enough):
                continue
            layers = layers_of(model, batch, fleet, template.hbm_gib * GIB, times)
            best = min(best, best_plan(layers, batch), key=lambda plan: plan.seconds)
        plans.append(best)
    return Design(template, tuple(plans))


def layer_times(template: Template, makespan: Callable[[Workload], int]) -> LayerTimes:
    """Forward and backward seconds of a layer, remembered."""

    @cache
    def times(layer: Layer) -> tuple[float, float]:
        forward, backward = (
            makespan(workload(ops, template)) / CLOCK_HZ for ops in (layer.forward, layer.backward)
        )
        return forward, backward

    return times


def _refined(
    models: tuple[Model, ...], fleet: Fleet, settings: Settings, found: list[Design], started: int
) -> Design:
    """The best of the start templates and the finalists once CP-SAT has scheduled their layers."""

    def exact(work: Workload) -> int:
        return optimal(work, settings.effort)

    ranked = sorted(found[started:], key=lambda made: -made.score(fleet))[: settings.finalists]
    made = [design(models, d.template, fleet, exact) for d in found[:started] + ranked]
    return max(made + ranked, key=lambda d: d.score(fleet))


def _buckets(settings: Settings) -> Iterator[tuple[float, list[Template]]]:
    """Templates by area, largest first."""

    def bucket(template: Template) -> int:
        return int(template.area_um2 // settings.bucket_um2)

    made = sorted(templates(settings.area_limit_um2, settings.hbm_gib), key=bucket, reverse=True)
    for number, members in groupby(made, key=bucket):
        yield number * settings.bucket_um2, list(members)


def _ceiling(models: tuple[Model, ...], template: Template, fleet: Fleet) -> float:
    """No design with this template scores higher."""
    times = layer_times(template, lower_bound)
    least = [min(_least(model, b, fleet, times) for b in fleet.micro_batches) for model in models]
    return _mean([fleet.global_batch / seconds for seconds in least])


def _promise(models: tuple[Model, ...], template: Template, fleet: Fleet) -> float:
    """In which order templates of one bucket are met: the ceiling by greedy schedules, for the
    smallest micro-batch."""
    times, batch = layer_times(template, greedy), min(fleet.micro_batches)
    return _mean([fleet.global_batch / _least(model, batch, fleet, times) for model in models])


def _least(model: Model, batch: int, fleet: Fleet, times: LayerTimes) -> float:
    """No plan is faster: all devices busy all the time, each layer at its cheapest width."""
    rows = [
        [width * sum(times(layer)) for layer in chain(model, batch, width)]
        for width in model.widths(fleet.most_width)
    ]
    work = float(sum(map(min, zip(*rows))))
    return work / fleet.devices * ceil(fleet.global_batch / batch)


def _mean(rates: list[float]) -> float:
    """Geometric mean."""
    return float(prod(rates) ** (1 / len(rates)))
