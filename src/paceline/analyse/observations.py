"""What follows from a job's figures, in words: one rule a function, each pure.

A rule looks at `JobFigures` and says one sentence with the figures that it rests on, or nothing.
Limits are where a figure begins to matter for the step, not where it is unusual.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from paceline.analyse.efficiency import Efficiency, Reached
from paceline.analyse.structure import Structure
from paceline.analyse.usage import Usage

MATTERS: Final = 0.1  # of a step
MOST: Final = 0.5
FEW: Final = 0.6  # of the cores
SMALL_NS: Final = 30_000  # an operator that takes less is mostly its own dispatch
FASTER: Final = 1.3  # of a lower precision
_PRODUCTS: Final = ("matrix", "grouped matrix", "convolution", "attention")


@dataclass(frozen=True)
class JobFigures:
    """All figures of one job."""

    usage: Usage
    efficiency: Efficiency | None = None  # None where no work of its operators is known
    structure: Structure | None = None


@dataclass(frozen=True)
class Observation:
    """One sentence, and the rule that says it."""

    rule: str
    text: str


Rule = Callable[[JobFigures], str | None]


def observed(figures: JobFigures) -> tuple[Observation, ...]:
    """All that the rules say, in their order."""
    said = ((rule.__name__, rule(figures)) for rule in RULES)
    return tuple(Observation(name, text) for name, text in said if text)


def bound_by(figures: JobFigures) -> str | None:
    """What the step is spent on, most first."""
    usage = figures.usage
    parts = {
        "computing": usage.compute,
        "exposed communication": usage.communication,
        "loading data": usage.data,
        "waiting for a core": usage.queued,
        "the host between operators": usage.rest,
    }
    named = sorted(parts.items(), key=lambda part: -part[1])
    told = [f"{_percent(share)} {name}" for name, share in named if share >= MATTERS / 2]
    return f"the step is {', '.join(told)}"


def held_by(figures: JobFigures) -> str | None:
    """Which structure makes the memory peak, and where."""
    held = figures.structure
    if held is None or not held.parts:
        return None
    return (
        f"{held.largest} {held.verb} {_percent(held.share(held.largest))} of the memory peak of "
        f"{_size(held.peak_bytes)}, reached at {held.place}"
    )


def differs(figures: JobFigures) -> str | None:
    """Steps of a job that routes its data are not alike, and one alone was watched."""
    held = figures.structure
    return f"memory's {held.watched}" if held is not None and held.watched else None


def loads(figures: JobFigures) -> str | None:
    if figures.usage.data < MATTERS:
        return None
    return (
        f"loading takes {_percent(figures.usage.data)} of the step on the training thread; loader "
        "workers would take it off, where cores are free (paceline predict --with data_workers)"
    )


def waits(figures: JobFigures) -> str | None:
    usage = figures.usage
    if usage.communication < MATTERS:
        return None
    return (
        f"communication that nothing hides takes {_percent(usage.communication)} of the step, and "
        f"computing hides {_percent(usage.hidden)} of all transfer time"
    )


def queues(figures: JobFigures) -> str | None:
    """Figures of a crowded machine say less of the job."""
    usage = figures.usage
    if usage.queued < MATTERS:
        return None
    return (
        f"threads were ready and had no core for {_percent(usage.queued)} of the step: more "
        f"threads than the {usage.cores} cores, or other programs; shares of a quiet machine differ"
    )


def updates(figures: JobFigures) -> str | None:
    if figures.usage.update < 2 * MATTERS:
        return None
    return f"the optimizer is {_percent(figures.usage.update)} of the work"


def leaves_cores(figures: JobFigures) -> str | None:
    usage = figures.usage
    if usage.cpu is None or usage.cpu >= FEW:
        return None
    return f"the job uses {_percent(usage.cpu)} of {usage.cores} cores"


def dispatches(figures: JobFigures) -> str | None:
    """Many small operators: the step is paid for by their number, not by their size."""
    usage = figures.usage
    mean_ns = usage.compute * usage.step_ns / usage.operators if usage.operators else 0.0
    if not mean_ns or mean_ns > SMALL_NS:
        return None
    return (
        f"a step has {usage.operators:,} operators of {mean_ns / 1e3:.0f} us each: larger batches "
        "or fewer, fused operators cost little more"
    )


def reaches(figures: JobFigures) -> str | None:
    """How near products come to the device's rate, and what that makes of the step."""
    found = figures.efficiency
    rows = _products(found)
    if found is None or not rows:
        return None
    best = max(rows, key=lambda row: row.took_ns)
    return (
        f"{best.name} products run at {_percent(best.of_peak)} of the device's rate; over the step "
        f"the job uses {_percent(found.utilisation)} of its {found.utilisation_type} rate"
    )


def moves_memory(figures: JobFigures) -> str | None:
    """Operators that no product waits for."""
    found = figures.efficiency
    if found is None:
        return None
    rest = [row for row in found.classes if row.name not in (*_PRODUCTS, "other")]
    share = sum(row.share for row in rest)
    if share < MOST or not rest:
        return None
    return (
        f"{_percent(share)} of operators' time is no product, most of it {rest[0].name} "
        f"({_percent(rest[0].share)}): a faster matrix unit would change little"
    )


def computes_wide(figures: JobFigures) -> str | None:
    """All products in float32 where the device has a faster type."""
    found = figures.efficiency
    if found is None or found.utilisation_type != "float32" or not _products(found):
        return None
    wide = found.flops_per_s.get("float32", 0.0)
    lower = {n: r / wide for n, r in found.flops_per_s.items() if wide and r > FASTER * wide}
    if not lower:
        return None
    best = max(lower, key=lambda name: lower[name])
    return f"products are float32; this device's {best} rate is {lower[best]:.1f} times as high"


RULES: Final[tuple[Rule, ...]] = (
    bound_by,
    held_by,
    differs,
    loads,
    waits,
    queues,
    updates,
    leaves_cores,
    dispatches,
    reaches,
    moves_memory,
    computes_wide,
)


def _products(found: Efficiency | None) -> list[Reached]:
    if found is None:
        return []
    return [row for row in found.classes if row.name in _PRODUCTS and row.known]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _size(count: float) -> str:
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} bytes"
