"""Hybrid plans: whether the best one fits, all rows, why it is as it is, and what was rejected."""

from collections.abc import Iterator
from typing import Any

from paceline.imagine.decoder import OUTSIDE_BYTES, peaks
from paceline.place.hybrid import NamedPlan, Planned, spelled
from paceline.report.text.quantities import duration, share, size
from paceline.report.text.table import plain_table


def hybrid_parts(planned: Planned) -> Iterator[Any]:
    yield _fit(planned)
    yield ""
    yield plain_table(_title(planned), _COLUMNS, [_row(planned, row) for row in planned.rows])
    yield ""
    if planned.reasons:
        rows = [(r.axis, r.chosen, r.other, r.text) for r in planned.reasons]
        yield plain_table("why: each setting beside its neighbours", ("", "is", "or", ""), rows)
        yield ""
    yield _rejected(planned)


_COLUMNS = ("", "plan", "step", "tokens/s", "TFLOP/s", "memory", "against best")


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
        spelled(one.job),
        duration(one.step_ns),
        f"{one.tokens_per_s:,.0f}",
        f"{one.flops_per_s / 1e12:,.0f}",
        size(one.peak.total) + ("" if row.fits else ", does not fit"),
        f"{one.step_ns / planned.best.step_ns - 1:+.1%}",
    )


def _fit(planned: Planned) -> Any:
    """Each stage's peak by category, and the margin."""
    question, job = planned.search.question, planned.best.job
    found = peaks(job)
    names = list(found[0].held)
    shown = [0, *([len(found) // 2] if len(found) > 2 else []), len(found) - 1]
    rows = []
    for stage in dict.fromkeys(shown):
        peak = found[stage]
        idle = peak.total - OUTSIDE_BYTES - sum(peak.held.values())
        cells = [size(peak.held[name]) for name in names]
        margin = question.memory_bytes - peak.total
        rows.append((f"stage {stage}", *cells, size(idle + OUTSIDE_BYTES), size(peak.total),
                     f"{size(margin)} ({share(margin, question.memory_bytes)})"))  # fmt: skip
    columns = ("", *(name.name.lower() for name in names), "idle, libraries", "peak", "margin")
    title = f"it fits: a rank has {size(question.memory_bytes)}, {len(found)} stages"
    return plain_table(title, columns, rows)


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
