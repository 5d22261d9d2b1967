"""What workers learn under a strategy beside plain training: the very same, or about as much."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from paceline.strategies import Effect, kind_of, known

pytestmark = pytest.mark.live
Runs = list[dict[str, Any]]

STRAYS = {"bf16": 1e-3, "fp16": 1e-4, "int8": 1e-3, "topk": 0.05, "threshold": 0.05,
          "random_block": 0.1, "onebit": 0.2, "adaptive_topk": 0.05, "dgc": 0.1, "powersgd": 0.1,
          "local_sgd": 0.05, "overlap_local_sgd": 0.2, "diloco": 0.2,
          "block_circulant": 0.3, "factored": 0.1, "low_rank": 0.05,
          "autocast": 0.05, "count_sketch": 0.1, "compress_activations": 0.05,
          "accumulate": 0.5}  # fmt: skip
"""By how much of plain's last loss another strategy's may be higher after so many steps."""


ROUNDED = {
    *("channels_last", "compiled", "fully_sharded", "fused_optimizer", "fused_step"),
    *("restructured_norms", "sufficient_factors", "tensor_parallel"),
}
"""Exact but for the order of arithmetic."""


ELSEWHERE = {
    *("border_topk", "keep_gathered", "offload_activations", "overlapped_products"),
    *("pipeline", "uneven_batches"),
}
"""Of pipelines, FSDP2, devices, tensor-parallel layers and loaders: they have tests on real workers
of their own."""


def test_every_strategy_that_applies_is_tried_on_real_workers(applied: Mapping[str, str]) -> None:
    assert set(applied) == {name for name in known() if kind_of(name).applies} - ELSEWHERE


def test_an_exact_strategy_trains_the_very_same_weights(
    exact: str, runs: Runs, applied: Mapping[str, str], beside: Callable[[str], str]
) -> None:
    for run in runs:
        under, plain = run[applied[exact]], run[beside(exact)]
        for what in ("losses", "weights"):
            if exact in ROUNDED:
                assert under[what] == pytest.approx(plain[what], rel=1e-5, abs=1e-6)
            else:
                assert under[what] == plain[what]


def test_a_plan_of_several_learns_what_its_lossy_strategy_alone_learns(
    together: str, runs: Runs
) -> None:
    names = [text.partition("(")[0] for text in together.split(" + ")]
    lossy = [
        text
        for name, text in zip(names, together.split(" + "))
        if kind_of(name).effect is Effect.LOSSY
    ]
    for run in runs:
        assert run[together]["weights"] == run["".join(lossy)]["weights"]
        assert run[together]["after"] == run[together]["fresh"]


def test_a_lossy_strategy_learns_about_as_well_and_alike_on_all_ranks(
    lossy: str, runs: Runs, applied: Mapping[str, str]
) -> None:
    first, second = (run[applied[lossy]] for run in runs)
    _require_learned(lossy, first["losses"], runs[0][""]["losses"])
    assert first["weights"] == second["weights"]
    assert first["weights"] != runs[0][""]["weights"]


def test_a_relaxed_strategy_learns_about_as_well_and_leaves_all_ranks_alike(
    relaxed: str, runs: Runs, applied: Mapping[str, str]
) -> None:
    first, second = (run[applied[relaxed]] for run in runs)
    _require_learned(relaxed, first["losses"], runs[0][""]["losses"])
    assert first["left"] == second["left"]
    assert first["left"] != runs[0][""]["weights"]


def _require_learned(name: str, under: list[float], plain: list[float]) -> None:
    assert under[-1] < under[0]
    assert under[-1] <= plain[-1] * (1 + STRAYS[name])
