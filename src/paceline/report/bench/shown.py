"""A sweep's report in a terminal."""

from typing import Any

from paceline.bench.against import Against
from paceline.bench.point import Report
from paceline.bench.taught import taught
from paceline.report.bench import tables
from paceline.report.bench.tables import Cells
from paceline.report.text.table import plain_table


def show_cells(title: str, cells: Cells, console: Any) -> None:
    console.print(plain_table(title, cells.columns, cells.rows))


def show_report(report: Report, console: Any) -> None:
    """Each workload by itself, then what sets them apart."""
    for name in report.workloads:
        points = report.of(name)
        show_cells(name, tables.speed(points), console)
        show_cells("memory", tables.memory(points), console)
        _say(tables.words(report, name), console)
        console.print()
    if found := taught(report):
        console.print("across workloads, each where its throughput saturates")
        _say([f"{each.text}: {each.command}" for each in found], console)
    if report.reached:
        show_cells("trained to their quality", tables.reached(report.reached), console)
    for text in tables.left_out(report):
        console.print(text, markup=False, soft_wrap=True)


def show_against(found: Against, console: Any) -> None:
    show_cells(f"{found.machines[1]} against {found.machines[0]}", tables.compared(found), console)
    _say(against_words(found), console)


def against_words(found: Against) -> list[str]:
    """The mean, what the machines' own rates make one expect, and what could not be compared."""
    said = [f"throughput is {found.throughput:.2f} times as high (geometric mean of "
            f"{len(found.pairs)} points)"]  # fmt: skip
    if found.rate is not None:
        said.append(f"the machines' float32 peaks differ by {found.rate:.2f} times")
    said += [f"{name}: {old} -> {new}" for name, (old, new) in found.versions.items()]
    for which, keys in (("first", found.only_first), ("second", found.only_second)):
        if keys:
            said.append(f"only in the {which}: {'; '.join(map(str, keys))}")
    return said


def _say(lines: list[str], console: Any) -> None:
    for line in lines:
        console.print(f"  - {line}", markup=False, soft_wrap=True)
