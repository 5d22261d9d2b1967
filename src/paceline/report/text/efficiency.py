"""What a job makes of its device, in a terminal: step, memory, kernels, observations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from paceline.analyse.efficiency import Efficiency, Reached
from paceline.analyse.observations import JobFigures, Observation
from paceline.analyse.structure import Structure
from paceline.analyse.usage import Usage
from paceline.report.text.quantities import duration, size
from paceline.report.text.table import TableRows, fitted, plain_table, short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_COLUMNS: Final = (
    "kernels", "time", "share", "TFLOP/s", "GB/s", "roofline", "lost", "tail", "known"
)  # fmt: skip
_FIRST_TO_GO: Final = ("tail", "kernels", "share", "GB/s", "TFLOP/s", "lost")
"""Columns that a narrow terminal does without, in this order."""
_NAME: Final = 400
_UNKNOWN: Final = 44  # characters of a name in a sentence
_MOSTLY: Final = 0.5


def show_figures(figures: JobFigures, said: Sequence[Observation], console: "Console") -> None:
    console.print(_usage_line(figures.usage), soft_wrap=True)
    if figures.efficiency is not None:
        show_efficiency(figures.efficiency, console)
    if figures.structure is not None:
        console.print()
        console.print(_structure_table(figures.structure))
    console.print()
    for each in said:
        console.print(f"- {each.text}", markup=False, soft_wrap=True)


def _usage_line(usage: Usage) -> str:
    shares = {
        "computing": usage.compute,
        "exposed communication": usage.communication,
        "loading": usage.data,
        "waiting for a core": usage.queued,
        "rest": usage.rest,
    }
    told = ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items())
    cores = "" if usage.cpu is None else f"; {100 * usage.cpu:.0f} % of {usage.cores:g} cores"
    return f"step {duration(usage.step_ns)}: {told}{cores}"


def _structure_table(held: Structure) -> "Table":
    parts = sorted(held.parts.items(), key=lambda part: -part[1])
    rows = [(name, size(count), f"{100 * held.share(name):.1f} %") for name, count in parts]
    title = f"memory peak {size(held.peak_bytes)}, rank {held.rank}, reached at {held.place}"
    return plain_table(title, ("structure", "held", "share"), rows)


def show_efficiency(found: Efficiency, console: "Console") -> None:
    for line in _lines(found):
        console.print(line, markup=False, soft_wrap=True)
    dropped: dict[str, None] = {}
    for title, rows in (("by class", found.classes), ("most above the roofline", found.worst)):
        if rows:
            made = fitted(_rows(title, rows), console.width, _FIRST_TO_GO)
            console.print()
            console.print(made.table())
            dropped |= dict.fromkeys(made.dropped)
    if dropped:
        told = f"no room for {', '.join(dropped)}: a wider terminal (COLUMNS=120) or --json"
        console.print(f"\n{told} has more", markup=False, soft_wrap=True)


def _lines(found: Efficiency) -> list[str]:
    gaps, whole = found.gaps, max(found.gaps.whole_ns, 1)
    told = [f"device: {found.device} ({found.source})"]
    if found.utilisation:
        told.append(
            f"model arithmetic: {100 * found.utilisation:.1f} % of the device's "
            f"{found.utilisation_type} rate over the step"
        )
    told.append(
        f"kernels idle {duration(gaps.idle_ns)} of {duration(gaps.whole_ns)} "
        f"({100 * gaps.idle_ns / whole:.0f} %), of which {duration(gaps.launch_bound_ns)} "
        "for want of a launch"
    )
    if found.beside.kernels:
        told.append(
            f"kernels beside communication take {found.beside.factor:.2f} times as long as alone "
            f"({found.beside.kernels} compared)"
        )
    if any(row.inferred > _MOSTLY for row in (*found.classes, *found.worst)):
        told.append("* work by the kernel's name and grid, or by like kernels of the trace")
    if found.beyond:
        told.append(
            f"shapes tell more than {found.device} can do in {100 * found.beyond:.1f} % of the "
            "kernels' time, and are not believed there: is it another device (--recorded-device)?"
        )
    return [*told, *_unknown_lines(found)]


def _unknown_lines(found: Efficiency) -> list[str]:
    """How much work is known, what is not, and what would tell more."""
    if found.known >= 1:
        return []
    more = (
        "no rule knows the other operators of the imagined run"
        if found.imagined
        else "more with torch.profiler.profile(record_shapes=True)"
    )
    named = ", ".join(
        f"{short(name, _UNKNOWN)} {100 * share:.1f} %" for name, share in found.unknown.items()
    )
    return [
        f"work is known of {100 * found.known:.1f} % of the kernels' time; {more}",
        f"unknown: {named}",
    ]


def _rows(title: str, rows: Sequence[Reached]) -> TableRows:
    what = "operators" if title == "by class" else "operator"
    return TableRows.of(title, (what, *_COLUMNS), map(_cells, rows))


def _cells(row: Reached) -> tuple[str, ...]:
    """Rates only where they are known."""
    rates = (
        (f"{row.flops_per_s / 1e12:,.1f}", f"{row.bytes_per_s / 1e9:,.0f}")
        if row.known
        else ("", "")
    )
    known = f"{100 * row.known:.0f} %" + (" *" if row.inferred > _MOSTLY else "")
    return (
        short(row.name, _NAME),
        f"{row.calls:,}",
        duration(row.took_ns),
        f"{100 * row.share:.1f} %",
        *rates,
        f"{100 * row.of_roofline:.0f} %" if row.of_roofline else "",
        duration(row.lost_ns) if row.known else "",
        f"{100 * row.tail:.0f} %" if row.tail else "",
        known,
    )
