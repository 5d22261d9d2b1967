"""Latency of networks from a few measured ones: what is learned, and what is not believed."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cost.errors import CostError
from paceline.cost.network import (
    CallKind,
    MeasuredNetwork,
    fit,
    kind_of,
    load,
    network_flops,
    save,
    utilisation,
)
from paceline.cost.network.fitting import nonnegative, robust
from paceline.cost.network.terms import terms_of
from paceline.graph import DType
from paceline.graph.work import (
    Convolution,
    Elements,
    Recorded,
    Rows,
    convolution,
    norm,
    pointwise,
)

FLOAT = DType.FLOAT32


def conv(channels: int, size: int, kernel: int = 9, groups: int = 1) -> Recorded:
    dims = Convolution(1, channels, channels, size**2, size**2, kernel, 1, groups)
    return Recorded("aten::convolution", convolution(dims, FLOAT))


def relu(channels: int, size: int) -> Recorded:
    return Recorded("aten::relu_", pointwise(Elements(channels * size**2), FLOAT))


def batch_norm(channels: int, size: int) -> Recorded:
    return Recorded("aten::native_batch_norm", norm(Rows(channels, size**2), FLOAT))


def true_ns(call: Recorded) -> float:
    """A machine of 50 GFLOP/s and 10 GB/s that takes 5 us a call."""
    flops = terms_of(call)[1] if kind_of(call) is CallKind.DENSE else 0.0
    return 5_000 + flops / 50 + call.work.size_bytes / 10


def network(seed: int) -> MeasuredNetwork:
    draws = np.random.default_rng(seed)
    calls = []
    for _ in range(12):
        channels, size = int(draws.integers(16, 256)), int(draws.choice([7, 14, 28, 56]))
        calls += [conv(channels, size), batch_norm(channels, size), relu(channels, size)]
    times = [round(true_ns(call)) for call in calls]
    whole = sum(times) + 2_000 * len(calls)
    return MeasuredNetwork(f"net {seed}", tuple(calls), tuple(times), whole)


def test_an_unseen_network_is_predicted_from_a_few() -> None:
    model = fit([network(seed) for seed in range(8)], 5e10)
    for seed in range(100, 110):
        unseen = network(seed)
        assert model.latency_ns(unseen.calls) == pytest.approx(unseen.latency_ns, rel=0.03)
    assert model.error < 0.03
    assert model.between_ns == pytest.approx(2000, rel=0.5)


def test_one_odd_measurement_does_not_rule() -> None:
    odd = network(1)
    times = tuple(took * (40 if at == 3 else 1) for at, took in enumerate(odd.call_ns))
    measured = [MeasuredNetwork("odd", odd.calls, times, odd.latency_ns)]
    model = fit([*measured, *(network(seed) for seed in range(2, 9))])
    unseen = network(50)
    assert model.latency_ns(unseen.calls) == pytest.approx(unseen.latency_ns, rel=0.05)


def test_a_kind_of_call_that_nobody_measured_costs_what_its_bytes_do() -> None:
    model = fit([network(seed) for seed in range(5)])
    depthwise = conv(64, 28, groups=64)
    assert kind_of(depthwise) is CallKind.DEPTHWISE
    assert CallKind.DEPTHWISE not in model.coefficients
    assert model.call_ns(depthwise) > 0


def test_too_few_networks_are_refused() -> None:
    with pytest.raises(CostError, match="2 networks were measured; give 3"):
        fit([network(1), network(2)])
    with pytest.raises(CostError, match="1 calls and 0 times"):
        MeasuredNetwork("a", (conv(16, 7),), (), 5)


def test_what_was_learned_is_kept_whole(tmp_path: Path) -> None:
    model = fit([network(seed) for seed in range(4)], 3e10)
    save(model, tmp_path / "here.json")
    again, unseen = load(tmp_path / "here.json"), network(9)
    assert again.latency_ns(unseen.calls) == model.latency_ns(unseen.calls)
    assert again.utilisation(unseen.calls) == model.utilisation(unseen.calls)
    (tmp_path / "here.json").write_text("{}")
    with pytest.raises(CostError, match="paceline latency --learn FILE"):
        load(tmp_path / "here.json")


def test_utilisation_is_achieved_over_peak() -> None:
    assert utilisation(2_000_000, 1_000_000, 4e9) == pytest.approx(0.5)
    assert utilisation(2_000_000, 1_000_000, 0.0) == 0.0
    calls = (conv(16, 10), relu(16, 10))
    assert network_flops(calls) == 2 * 100 * 16 * 16 * 9


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (conv(32, 7, kernel=1), CallKind.POINT),
        (conv(32, 7), CallKind.DENSE),
        (conv(32, 7, groups=4), CallKind.GROUPED),
        (conv(32, 7, groups=32), CallKind.DEPTHWISE),
        (relu(32, 7), CallKind.POINTWISE),
        (Recorded("aten::silu_", relu(32, 7).work), CallKind.CURVED),
        (batch_norm(32, 7), CallKind.NORM),
    ],
)
def test_calls_are_of_a_kind(call: Recorded, kind: CallKind) -> None:
    assert kind_of(call) is kind


def test_channels_count_in_whole_vectors() -> None:
    assert terms_of(conv(17, 7))[1] == terms_of(conv(32, 7))[1] > terms_of(conv(16, 7))[1]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_the_nonnegative_solution_is_the_best_of_all_without_negative_parts(seed: int) -> None:
    """Kuhn and Tucker: no gain where a part is 0, none left where it is not."""
    draws = np.random.default_rng(seed)
    rows, wanted = draws.normal(size=(12, 5)), draws.normal(size=12)
    found = nonnegative(rows, wanted)
    slope = rows.T @ (wanted - rows @ found)
    assert (found >= 0).all()
    assert (slope <= 1e-6).all()
    assert np.abs(slope[found > 0]).max(initial=0) < 1e-6


def test_outliers_are_damped_and_terms_that_are_nothing_stay_nothing() -> None:
    size = np.arange(1.0, 30.0)
    rows = np.stack([np.ones(29), size, np.zeros(29)], axis=1)
    times = 3 + 2 * size
    times[4] *= 30
    assert robust(rows, times) == pytest.approx([3, 2, 0], rel=0.05, abs=1e-6)


def test_an_outlier_pulls_by_its_distance_and_not_by_its_square() -> None:
    """Nine times of 1 and one of 0.5 that is off by e = 2 x - 1, which counts 0.15 / e times: the
    best x is (9 + 0.3 / e) / (9 + 0.6 / e), so that e is 14 / 15."""
    times = np.array([1.0] * 9 + [0.5])
    assert robust(np.ones((10, 1)), times) == pytest.approx([29 / 30], rel=1e-6)
