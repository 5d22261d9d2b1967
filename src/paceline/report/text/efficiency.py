"""What a job makes of its device, in a terminal: step, memory, kernels, observations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from paceline.analyse.efficiency import Efficiency, Reached
from paceline.analyse.observations import Observation, Seen
from paceline.analyse.structure import Structure
from paceline.analyse.usage import Usage
from paceline.report.text.quantities import duration, size
from paceline.report.text.table import plain_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_WIDTH = 44
_MOSTLY = 0.5


def show_seen(seen: Seen, said: Sequence[Observation], console: "Console") -> None:
    console.print(_usage_line(seen.usage), soft_wrap=True)
    if seen.efficiency is not None:
        show_efficiency(seen.efficiency, console)
    if seen.structure is not None:
        console.print()
        console.print(_structure_table(seen.structure))
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
    for title, rows in (("by class", found.classes), ("most above the roofline", found.worst)):
        if rows:
            console.print()
            console.print(_table(title, rows))


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
    named = ", ".join(f"{_cut(name)} {100 * share:.1f} %" for name, share in found.unknown.items())
    return [
        f"work is known of {100 * found.known:.1f} % of the kernels' time; {more}",
        f"unknown: {named}",
    ]


def _table(title: str, rows: tuple[Reached, ...]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    what = "operators" if title == "by class" else "operator"
    table.add_column(what, max_width=_WIDTH, no_wrap=True, overflow="ellipsis")
    for name in (
        "kernels",
        "time",
        "share",
        "TFLOP/s",
        "GB/s",
        "roofline",
        "lost",
        "tail",
        "known",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Reached) -> tuple[str, ...]:
    """Rates only where they are known."""
    rates = (
        (f"{row.flops_per_s / 1e12:,.1f}", f"{row.bytes_per_s / 1e9:,.0f}")
        if row.known
        else ("", "")
    )
    known = f"{100 * row.known:.0f} %" + (" *" if row.inferred > _MOSTLY else "")
    return (
        _cut(row.name),
        f"{row.calls:,}",
        duration(row.took_ns),
        f"{100 * row.share:.1f} %",
        *rates,
        f"{100 * row.of_roofline:.0f} %" if row.of_roofline else "",
        duration(row.lost_ns) if row.known else "",
        f"{100 * row.tail:.0f} %" if row.tail else "",
        known,
    )


def _cut(name: str) -> str:
    return name if len(name) <= _WIDTH else name[: _WIDTH - 1] + "…"
