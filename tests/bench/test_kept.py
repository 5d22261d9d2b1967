"""A sweep's folder: rows as they come, and what a killed run left of them."""

from pathlib import Path
from typing import Any

import pytest

from paceline.bench import kept
from paceline.bench.errors import BenchError
from paceline.bench.kept import Row, keep, load_report, rows, save
from paceline.bench.point import Key, Report, Unfit
from paceline.bench.sweep import _is_settled, report_of
from paceline.measure.peaks import Peaks

PEAKS = Peaks("x86_64-2c", 1, {"float32": 1e11}, 1e10, "2026-01-01T00:00:00+00:00")


def test_rows_are_read_as_they_were_kept(point: Any, tmp_path: Path) -> None:
    unfit = Unfit(Key("vit", 512, 1), 10**9, 384)
    for row in (Row(point=point(8)), Row(unfit=unfit)):
        keep(tmp_path, row)
    assert list(rows(tmp_path)) == [Row(point=point(8)), Row(unfit=unfit)]


def test_a_line_that_was_cut_off_is_measured_anew(point: Any, tmp_path: Path) -> None:
    keep(tmp_path, Row(point=point(8)))
    with (tmp_path / kept.ROWS).open("ab") as file:
        file.write(b'{"point": {"ke')
    assert len(list(rows(tmp_path))) == 1
    keep(tmp_path, Row(point=point(16)))
    assert [row.point.key.batch for row in rows(tmp_path) if row.point] == [8, 16]


def test_a_whole_line_of_something_else_is_an_error(tmp_path: Path) -> None:
    (tmp_path / kept.ROWS).write_text("not a row\n")
    with pytest.raises(BenchError, match=r"rows\.jsonl has a line that is no row"):
        list(rows(tmp_path))


def test_an_interrupted_sweep_goes_on_with_what_is_missing(point: Any, tmp_path: Path) -> None:
    keep(tmp_path, Row(point=point(8)))
    keep(tmp_path, Row(unfit=Unfit(Key("vit", 64, 1), 10**9, 48)))
    settled = [b for b in (8, 16, 64, 128) if _is_settled(Key("vit", b, 1), rows(tmp_path))]
    assert settled == [8, 64, 128]
    assert not _is_settled(Key("vit", 64, 2), rows(tmp_path))


def test_a_report_holds_what_was_asked_for_and_comes_back_from_its_file(
    point: Any, tmp_path: Path
) -> None:
    for batch in (8, 16):
        keep(tmp_path, Row(point=point(batch)))
    report = report_of(tmp_path, [Key("vit", 16, 1)], PEAKS, {"vit, batch 32": "no room"})
    assert [each.key.batch for each in report.points] == [16]
    save(report, tmp_path)
    assert load_report(tmp_path) == report


def test_a_folder_without_a_report_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="bench run"):
        load_report(tmp_path)


def test_points_of_a_workload_come_by_workers_and_batch(point: Any) -> None:
    given = (point(16, workers=2), point(16), point(8), point(8, name="gnn"))
    report = Report("m", {}, {}, 1.0, given)
    assert [(p.key.workers, p.key.batch) for p in report.of("vit")] == [(1, 8), (1, 16), (2, 16)]
