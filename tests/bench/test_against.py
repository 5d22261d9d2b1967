"""Two reports beside one another."""

from typing import Any

import pytest

from paceline.bench.against import against
from paceline.bench.errors import BenchError
from paceline.bench.point import Report


def report(*points: Any, version: str = "1", rate: float = 1e11) -> Report:
    return Report("here", {"torch": version}, {"float32": rate}, 1e10, points)


def test_ratios_are_of_the_second_over_the_first(point: Any) -> None:
    first = report(point(8, 100, mb=100), point(16, 200, mb=100))
    second = report(point(8, 200, mb=50), point(16, 100, mb=100), version="2", rate=2e11)
    found = against(first, second)
    assert [pair.throughput for pair in found.pairs] == pytest.approx([2.0, 0.5])
    assert [pair.peak_bytes for pair in found.pairs] == [0.5, 1.0]
    assert found.throughput == pytest.approx(1.0)
    assert found.versions == {"torch": ("1", "2")}
    assert found.rate == 2.0


def test_points_that_one_report_alone_has_are_named(point: Any) -> None:
    found = against(report(point(8), point(16)), report(point(8), point(32)))
    assert [key.batch for key in (*found.only_first, *found.only_second)] == [16, 32]


def test_reports_without_a_common_point_say_what_each_has(point: Any) -> None:
    with pytest.raises(BenchError, match="vit, batch 8, workers 1"):
        against(report(point(8)), report(point(16)))
