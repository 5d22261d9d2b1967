"""What several points teach, in words that carry their figures."""

from typing import Any

from paceline.bench import lessons
from paceline.bench.lessons import over_batches, saturation
from paceline.bench.point import Key, Unfit


def test_throughput_saturates_at_the_smallest_batch_that_is_nearly_best(point: Any) -> None:
    curve = [point(8, 50), point(16, 96), point(32, 100), point(64, 99)]
    assert saturation(curve).key.batch == 16
    assert "saturates at batch 16" in str(lessons.saturates(curve))


def test_a_curve_that_still_grows_says_so(point: Any) -> None:
    said = lessons.saturates([point(8, 50), point(16, 100)])
    assert said == ("throughput still grows at the largest batch tried: 16 has 100 % more than 8")


def test_halving_a_batch_tells_what_it_frees_and_costs(point: Any) -> None:
    said = lessons.halving([point(32, 97, mb=600), point(64, 100, mb=1700)])
    assert said == (
        "activations are 98 % of the peak at batch 64; halving it frees 1.1 GB and costs "
        "3 % throughput"
    )


def test_halving_says_nothing_without_the_half(point: Any) -> None:
    assert lessons.halving([point(8), point(64)]) is None


def test_activations_that_grow_with_the_batch_are_said_to(point: Any) -> None:
    said = lessons.activations_grow([point(8, mb=66), point(64, mb=330)])
    assert said == "activations grow from 50 % of the peak at batch 8 to 90 % at 64"
    assert lessons.activations_grow([point(8, mb=330), point(64, mb=331)]) is None


def test_a_batch_that_did_not_fit_is_among_the_observations(point: Any) -> None:
    unfit = Unfit(Key("vit", 512, 1), 2_000_000_000, 384)
    said = [each.text for each in over_batches([point(8)], [unfit])]
    assert said == ["batch 512 does not fit in 2 GB; 384 does"]
