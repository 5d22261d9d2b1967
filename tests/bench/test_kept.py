"""A sweep's folder: rows as they come, and what a killed run left of them."""

from dataclasses import replace as dataclass_replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from paceline.bench import kept
from paceline.bench.asked import Sweep
from paceline.bench.errors import BenchError
from paceline.bench.found import is_settled, report_of
from paceline.bench.kept import KeptRow, Setting, all_rows, keep, load_report, rows, save
from paceline.bench.point import Key, Report, Unfit
from paceline.bench.sweep import swept
from paceline.machine import this_machine
from paceline.measure.peaks import Peaks

HERE = Setting("x86_64, 2 cores", {"torch": "2.13.0"})
PEAKS = Peaks("x86_64-2c", 1, {"float32": 1e11}, 1e10, "2026-01-01T00:00:00+00:00")


def test_rows_are_read_as_they_were_kept(point: Any, tmp_path: Path) -> None:
    unfit = Unfit(Key("vit", 512, 1), 10**9, 384)
    for row in (KeptRow(HERE, point=point(8)), KeptRow(HERE, unfit=unfit)):
        keep(tmp_path, row)
    assert list(rows(tmp_path, HERE)) == [KeptRow(HERE, point=point(8)), KeptRow(HERE, unfit=unfit)]


def test_a_line_that_was_cut_off_is_measured_anew(point: Any, tmp_path: Path) -> None:
    keep(tmp_path, KeptRow(HERE, point=point(8)))
    with (tmp_path / kept.ROWS).open("ab") as file:
        file.write(b'{"point": {"ke')
    assert len(list(rows(tmp_path, HERE))) == 1
    keep(tmp_path, KeptRow(HERE, point=point(16)))
    assert [row.point.key.batch for row in rows(tmp_path, HERE) if row.point] == [8, 16]


def test_a_whole_line_of_something_else_is_an_error(tmp_path: Path) -> None:
    (tmp_path / kept.ROWS).write_text("not a row\n")
    with pytest.raises(BenchError, match=r"rows\.jsonl has a line that is no row"):
        list(rows(tmp_path, HERE))


def test_an_interrupted_sweep_goes_on_with_what_is_missing(point: Any, tmp_path: Path) -> None:
    keep(tmp_path, KeptRow(HERE, point=point(8)))
    keep(tmp_path, KeptRow(HERE, unfit=Unfit(Key("vit", 64, 1), 10**9, 48)))

    def is_known(batch: int, workers: int = 1, limit: int = 10**9) -> bool:
        return is_settled(Key("vit", batch, workers), rows(tmp_path, HERE), limit)

    assert [batch for batch in (8, 16, 64, 128) if is_known(batch)] == [8, 64, 128]
    assert not is_known(64, workers=2)
    assert not is_known(64, limit=2 * 10**9), "with more memory it is tried again"
    keep(tmp_path, KeptRow(HERE, point=point(64)))
    assert is_known(64, limit=2 * 10**9), "and fitted"


def test_rows_of_another_setting_do_not_count(point: Any, tmp_path: Path) -> None:
    for other in (
        replace(HERE, threads=2),
        replace(HERE, versions={"torch": "2.12.0"}),
        replace(HERE, machine="aarch64, 2 cores"),
    ):
        keep(tmp_path, KeptRow(other, point=point(8)))
    assert not list(rows(tmp_path, HERE))
    assert len(list(all_rows(tmp_path))) == 3
    assert Sweep(tmp_path, threads=2).setting != Sweep(tmp_path).setting


def test_a_report_holds_what_was_asked_for_and_comes_back_from_its_file(
    point: Any, tmp_path: Path
) -> None:
    sweep = Sweep(tmp_path)
    for batch in (16, 64):
        keep(tmp_path, KeptRow(sweep.setting, unfit=Unfit(Key("vit", batch, 1), 10**8, 12)))
    for batch in (8, 16):
        keep(tmp_path, KeptRow(sweep.setting, point=point(batch)))
    asked = [Key("vit", batch, 1) for batch in (16, 64)]
    report = report_of(sweep, asked, PEAKS, {"vit, batch 32": "no room"})
    assert [each.key.batch for each in report.points] == [16]
    assert [each.key.batch for each in report.unfit] == [64], "the other fitted later"
    assert report_of(sweep, [Key("vit", 128, 1)], PEAKS, {}).unfit == report.unfit
    save(report, tmp_path)
    assert load_report(tmp_path) == report


def test_a_sweep_without_time_measures_nothing_and_says_what_is_left(tmp_path: Path) -> None:
    save(dataclass_replace(PEAKS, machine=this_machine()), tmp_path)
    said: list[str] = []
    report = swept(Sweep(tmp_path, ("gnn",), (8,), end_s=0.0), said.append)
    assert not said
    assert not report.points
    assert [what for what, _ in report.failed] == ["gnn, batch 8, workers 1"]
    assert "run it again" in report.failed[0][1]


def test_a_folder_without_a_report_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="bench run"):
        load_report(tmp_path)


def test_points_of_a_workload_come_by_workers_and_batch(point: Any) -> None:
    given = (point(16, workers=2), point(16), point(8), point(8, name="gnn"))
    report = Report("m", {}, {}, 1.0, given)
    assert [(p.key.workers, p.key.batch) for p in report.of("vit")] == [(1, 8), (1, 16), (2, 16)]
