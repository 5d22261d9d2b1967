"""Hybrid plans: whether the best one fits, all rows, why it is as it is, and what was rejected."""

from collections.abc import Iterator
from typing import Any, Final

from paceline.graph.kinds import MemoryCategory
from paceline.imagine.decoder import peaks
from paceline.place.hybrid import NamedPlan, Planned, spelled
from paceline.report.text.quantities import duration
from paceline.report.text.table import plain_table

_MEMORY: Final = {
    MemoryCategory.WEIGHTS: "weights",
    MemoryCategory.GRADIENTS: "grads",
    MemoryCategory.OPTIMIZER: "states",
    MemoryCategory.ACTIVATIONS: "kept",
    MemoryCategory.TEMPORARY: "loss",
    MemoryCategory.COMMUNICATION: "buffers",
}
_COLUMNS: Final = ("", "step", "tokens/s", "TFLOP/s", "GB", "against", "plan")
_SLOWEST: Final = 2.0
"""Leaner plans that take longer than this, over the best one, are counted and not shown."""


def hybrid_parts(planned: Planned) -> Iterator[Any]:
    yield from _timed(planned)
    yield from _constants(planned)
    yield _fit(planned)
    yield ""
    shown = [row for row in planned.rows if _is_shown(planned, row)]
    yield plain_table(_title(planned), _COLUMNS, [_row(planned, row) for row in shown])
    if len(shown) < len(planned.rows):
        yield f"and {len(planned.rows) - len(shown)} leaner ones of more than twice the time"
    yield ""
    if planned.reasons:
        rows = [(r.axis, r.chosen, r.other, r.text) for r in planned.reasons]
        columns = ("why the best one has", "it", "not", "")
        yield plain_table("", columns, rows)
        yield ""
    yield _rejected(planned)


def _timed(planned: Planned) -> Iterator[str]:
    """What the times rest on, where they were recorded."""
    timed = planned.search.question.timed
    if timed is None:
        return
    model, size = timed.job.model, timed.job.recipe.micro_batch
    yield (
        f"{model.layers} {model.source.removeprefix('recorded ')}, each recorded with "
        f"{duration(timed.layer.forward_ns)} forward and {duration(timed.layer.backward_ns)} "
        f"backward for {size} sequences on {timed.device.name}; other shapes are carried by "
        "forecasts"
    )
    yield ""


def _constants(planned: Planned) -> Iterator[str]:
    """What forecasts go by, where somebody gave it."""
    made = planned.search.question.constants
    if made is not None:
        yield f"forecasts by constants of {made.source}, {made.date}"
        yield ""


def _is_shown(planned: Planned, row: NamedPlan) -> bool:
    quick = row.priced.step_ns <= _SLOWEST * planned.best.step_ns
    return quick or row.name != "leaner"


def _title(planned: Planned) -> str:
    question = planned.search.question
    return (
        f"{question.model.name} on {question.site.ranks} x {question.site.device.name}, batch "
        f"{question.global_batch}, {question.precision.value}; rates are per device"
    )


def _row(planned: Planned, row: NamedPlan) -> tuple[str, ...]:
    one = row.priced
    return (
        row.name,
        duration(one.step_ns),
        f"{one.tokens_per_s:,.0f}",
        f"{one.flops_per_s / 1e12:,.0f}",
        _gb(one.peak.total) + ("" if row.fits else "!"),
        f"{one.step_ns / planned.best.step_ns - 1:+.1%}",
        spelled(one.job) + ("" if row.fits else " (does not fit)"),
    )


def _fit(planned: Planned) -> Any:
    """The peak of the first, the fullest and the last stage by category, and the margin."""
    question, found = planned.search.question, peaks(planned.best.job)
    rows = []
    for stage in sorted({0, planned.best.peak.stage, len(found) - 1}):
        peak = found[stage]
        cells = [_gb(peak.held[category]) for category in _MEMORY]
        rest, margin = peak.total - sum(peak.held.values()), question.memory_bytes - peak.total
        share = f"{_gb(margin)} ({margin / question.memory_bytes:.0%})"
        rows.append((f"stage {stage}", *cells, _gb(rest), _gb(peak.total), share))
    columns = ("GB", *_MEMORY.values(), "other", "peak", "margin")
    stages = "one stage" if len(found) == 1 else f"{len(found)} stages"
    return plain_table(
        f"The best plan fits: {_gb(question.memory_bytes)} GB a rank, {stages}", columns, rows
    )


def _gb(count: float) -> str:
    return f"{count / 1e9:.1f}"


def _rejected(planned: Planned) -> str:
    found = planned.search
    by = ", ".join(
        f"{count:,} for {one.name.lower()}" for one, count in found.categories.most_common()
    )
    return (
        f"{found.considered:,} plans considered: {len(found.oversized):,} do not fit"
        f"{f' ({by})' if by else ''}; {found.pruned:,} cannot beat a plan that holds no more, by "
        f"their bound; {len(found.priced):,} replayed, {len(found.front):,} of them not dominated"
    )
