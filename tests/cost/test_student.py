"""Student's t, against its density summed up and against tables."""

import math

import numpy as np
import pytest

from paceline.cost.student import joint_freedom, t90, t95


def held(t: float, freedom: float) -> float:
    """The share of cases within t standard errors: the density summed over an angle."""
    angle = np.linspace(0, math.atan(t / math.sqrt(freedom)), 20_001)
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2))
    height = np.cos(angle) ** (freedom - 1)
    area = float((height[1:] + height[:-1]).sum() / 2) * float(angle[1])
    return 2 * scale / math.sqrt(math.pi) * area


@pytest.mark.parametrize("freedom", [1, 1.35, 1.7, 2, 2.5, 3, 4.5, 7, 9, 14, 30, 300])
def test_intervals_hold_the_truth_as_often_as_they_say(freedom: float) -> None:
    assert held(t90(freedom), freedom) == pytest.approx(0.90, abs=0.005)
    assert held(t95(freedom), freedom) == pytest.approx(0.95, abs=0.005)


def test_many_values_give_the_normal_and_less_than_one_counts_as_one() -> None:
    assert t95(math.inf) == 1.960
    assert t95(0.2) == t95(1) == 12.706


def test_errors_of_like_size_add_up_their_freedoms_and_a_large_one_rules() -> None:
    assert joint_freedom([(4.0, 10), (4.0, 10)]) == pytest.approx(20)
    assert joint_freedom([(100.0, 1), (0.01, 50)]) == pytest.approx(1, abs=0.01)
    assert joint_freedom([(0.0, 3), (4.0, 10)]) == pytest.approx(10)
    assert joint_freedom([]) == joint_freedom([(0.0, 1)]) == math.inf
