"""A sweep's report as Markdown, with its plots as files beside it."""

from collections.abc import Iterator
from pathlib import Path

from paceline.bench.point import Point, Report, curves
from paceline.bench.taught import Taught, taught
from paceline.report.bench import plots, tables
from paceline.report.bench.tables import Cells
from paceline.report.markdown import escaped

PAGE = "report.md"


def write_page(report: Report, folder: Path) -> Path:
    """`report.md`, and an SVG for each plot that it shows."""
    lines = [
        "# Workloads on this machine",
        "",
        f"{report.machine}; {', '.join(f'{n} {v}' for n, v in report.versions.items())}. "
        f"Peaks of one worker: {_peaks(report)}.",
        "",
    ]
    for name in report.workloads:
        lines += [f"## {name}", "", *_workload(report, name, folder), ""]
    if found := taught(report):
        lines += ["## Across workloads", "", *map(_taught, found), ""]
    if report.reached:
        lines += ["## Trained to their quality", "", *markdown(tables.reached(report.reached))]
    lines += [f"- {escaped(text)}" for text in tables.left_out(report)]
    page = folder / PAGE
    page.write_text("\n".join(lines) + "\n")
    return page


def markdown(cells: Cells) -> Iterator[str]:
    yield f"| {' | '.join(cells.columns)} |"
    yield f"|{'---|' * len(cells.columns)}"
    for row in cells.rows:
        yield f"| {' | '.join(escaped(cell) for cell in row)} |"


def _taught(each: Taught) -> str:
    return f"- {escaped(each.text)}: `{each.command}`"


def _workload(report: Report, name: str, folder: Path) -> Iterator[str]:
    points = report.of(name)
    yield from markdown(tables.speed(points))
    yield ""
    yield from markdown(tables.memory(points))
    yield ""
    yield from (f"- {escaped(text)}" for text in tables.words(report, name))
    yield ""
    yield from markdown(tables.classes(points[-1]))
    for plot, drawn in _drawn(points).items():
        (folder / f"{name}-{plot}.svg").write_text(drawn)
        yield f"\n![{plot} of {name}]({name}-{plot}.svg)"


def _drawn(points: tuple[Point, ...]) -> dict[str, str]:
    found = {"throughput": plots.throughput(curves(points))}
    held = [point for point in curves(points)[0] if point.structure is not None]
    return {**found, "memory": plots.memory(held)} if held else found


def _peaks(report: Report) -> str:
    rates = [f"{rate / 1e9:.0f} GFLOP/s {name}" for name, rate in report.flops_per_s.items()]
    return ", ".join([*rates, f"{report.memory_bytes_per_s / 1e9:.1f} GB/s of memory"])
