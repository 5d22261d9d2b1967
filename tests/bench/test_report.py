"""A sweep's report: what is shown, the page, its plots."""

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rich.console import Console

from paceline.bench.against import against
from paceline.bench.point import Key, Reached, Report, Unfit
from paceline.report.bench import plots, tables
from paceline.report.bench.pages import write_page
from paceline.report.bench.shown import show_against, show_report


def report(point: Any) -> Report:
    points = (point(8, 50, mb=66), point(16, 96, mb=120), point(32, 100, mb=240),
              point(8, 30, name="gnn", mb=40))  # fmt: skip
    unfit = (Unfit(Key("vit", 64, 1), 10**9, 48),)
    reached = (Reached("vit", 1, 64, "accuracy", 0.8, 0.81, True, 100, 20.5),)
    return Report("x86_64-2c", {"torch": "2.13.0"}, {"float32": 1e11}, 1e10, points, unfit,
                  reached, (("gnn, batch 16", "no | room"),))  # fmt: skip


def shown(act: Any) -> str:
    out = io.StringIO()
    act(Console(file=out, width=180))
    return out.getvalue()


def test_the_terminal_shows_speed_memory_and_observations(point: Any) -> None:
    text = shown(lambda console: show_report(report(point), console))
    assert "throughput saturates at batch 16" in text
    assert "batch 64 does not fit in 1 GB; 48 does" in text
    assert "activations" in text
    assert "not measured: gnn, batch 16: no | room" in text


def test_a_workload_of_which_no_batch_fits_is_not_forgotten(point: Any) -> None:
    given = replace(report(point), unfit=(Unfit(Key("moe", 64, 2), 10**9, 0),))
    said = "moe, workers 2: batch 64 does not fit in 1 GB, and no smaller one that was tried does"
    assert said in shown(lambda console: show_report(given, console))


def test_every_row_has_a_cell_for_each_column(point: Any) -> None:
    given = report(point)
    for cells in (
        tables.speed(given.points),
        tables.memory(given.points),
        tables.reached(given.reached),
        tables.compared(against(given, given)),
    ):
        assert cells.rows
        assert {len(row) for row in cells.rows} == {len(cells.columns)}


def test_the_page_has_tables_and_the_plots_that_it_shows(point: Any, tmp_path: Path) -> None:
    page = write_page(report(point), tmp_path)
    text = page.read_text()
    for name in re.findall(r"!\[[^]]*\]\(([^)]*)\)", text):
        assert ElementTree.parse(tmp_path / name).getroot().tag.endswith("svg")
    assert len(list(tmp_path.glob("*.svg"))) == 4
    tables = [line for line in text.splitlines() if line.startswith("| vit")]
    assert tables
    assert r"no \| room" in text


def test_the_ring_of_a_plot_stands_where_throughput_saturates(point: Any) -> None:
    drawn = plots.throughput([[point(8, 50), point(16, 100), point(32, 100)]])
    svg = "{http://www.w3.org/2000/svg}"
    circles = list(ElementTree.fromstring(drawn).iter(f"{svg}circle"))
    dots, rings = circles[:3], circles[3:]
    assert [ring.get("cx") for ring in rings] == [dots[1].get("cx")]


def test_stacks_of_memory_are_as_high_as_their_bytes(point: Any) -> None:
    drawn = plots.memory([point(8, mb=66), point(16, mb=132)])
    svg = "{http://www.w3.org/2000/svg}"
    bars = [r for r in ElementTree.fromstring(drawn).iter(f"{svg}rect") if r.get("width") != "10"]
    heights = [float(bar.get("height", "0")) for bar in bars]
    assert sum(heights[7:]) / sum(heights[:7]) == 2.0


def test_a_single_batch_is_drawn_too(point: Any) -> None:
    ElementTree.fromstring(plots.throughput([[point(8)]]))


def test_two_reports_are_shown_by_ratio(point: Any) -> None:
    found = against(report(point), report(point))
    text = shown(lambda console: show_against(found, console))
    assert "throughput is 1.00 times as high (geometric mean of 4 points)" in text
