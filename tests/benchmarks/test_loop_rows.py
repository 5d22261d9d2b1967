"""The loop's rows in the README: losses and failures say so."""

from typing import Any

from benchmarks.figures.loop_rows import loop_rows

KEPT: dict[str, Any] = {
    "job": "mlp", "mbit": 100, "effect": "exact", "predicted": 1.2, "measured": 1.1, "low": 1.0,
    "high": 1.2, "kept": True, "bound": 1.5, "plan": ["buckets(size_bytes=1)", "early_update"],
    "best_hand": "fp16 hook", "hand_gains": {"fp16 hook": 1.25}, "vs_hand": 0.88,
    "hand_noise": 0.02,
}  # fmt: skip


def cells(**changed: Any) -> list[str]:
    return loop_rows([KEPT | changed]).splitlines()[-1].strip("| ").split(" | ")


def test_a_plan_behind_what_is_done_by_hand_is_marked() -> None:
    assert cells() == [
        "mlp", "100", "exact", "1.20", "1.10 (1.00 to 1.20)", "1.50", "fp16 hook 1.25",
        "0.88 (behind)", "`buckets` + `early_update`",
    ]  # fmt: skip
    assert cells(vs_hand=0.99)[7] == "0.99"


def test_a_plan_that_was_not_kept_and_a_loop_that_failed_are_told() -> None:
    assert cells(kept=False)[4].endswith(", not kept")
    failed = loop_rows([{"job": "cnn", "mbit": 10, "effect": "lossy", "failed": "why"}])
    assert "| cnn | 10 | lossy |  | failed |" in failed
