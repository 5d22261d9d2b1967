"""Average precision of boxes, on scenes drawn by hand."""

import pytest

from paceline.bench.boxes import Found, apart, mean_average_precision, overlap

SQUARE = (0.0, 0.0, 10.0, 10.0)
BESIDE = (20.0, 0.0, 30.0, 10.0)


def test_overlap_is_the_common_area_over_both() -> None:
    assert overlap(SQUARE, SQUARE) == 1
    assert overlap(SQUARE, (5.0, 0.0, 15.0, 10.0)) == pytest.approx(1 / 3)
    assert overlap(SQUARE, BESIDE) == 0


def test_of_boxes_on_one_object_the_surest_is_kept() -> None:
    twice = [Found(0, 0.5, SQUARE), Found(0, 0.9, (1.0, 0.0, 11.0, 10.0)), Found(1, 0.4, SQUARE)]
    assert [each.sure for each in apart(twice)] == [0.9, 0.4]


def test_all_found_and_nothing_else_is_a_precision_of_one() -> None:
    found = [[Found(0, 0.9, SQUARE)], [Found(0, 0.3, BESIDE)]]
    assert mean_average_precision(found, [[(0, SQUARE)], [(0, BESIDE)]], 1) == 1


def test_a_surer_wrong_box_and_a_missed_object_cost_half_each() -> None:
    found = [[Found(0, 0.9, BESIDE), Found(0, 0.5, SQUARE)]]
    there = [[(0, SQUARE), (0, (50.0, 0.0, 60.0, 10.0))]]
    assert mean_average_precision(found, there, 1) == pytest.approx(0.25)


def test_the_wrong_kind_finds_nothing() -> None:
    assert mean_average_precision([[Found(1, 0.9, SQUARE)]], [[(0, SQUARE)]], 1) == 0
