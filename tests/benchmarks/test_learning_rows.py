"""Figures of learning: none of fewer seeds than asked for, none of time from a busy machine."""

import argparse
import math
from dataclasses import asdict
from typing import Any

import pytest

pytest.importorskip("torch")

from benchmarks.__main__ import benchmarks
from benchmarks.accuracy import federated, graph_network, learning, skew

from benchmarks import measure

OPTIONS = argparse.Namespace(quick=False)


def row(arm: learning.Arm, seed: int, accuracy: list[float], each_bytes: int) -> dict[str, Any]:
    """A training whose every judgement comes after as many bytes as the one before."""
    sent = [each_bytes * n for n in range(1, len(accuracy) + 1)]
    return {
        "arm": asdict(arm), "seed": seed, "accuracy": accuracy, "sent_bytes": sent,
        "up_bytes": sent,
    }  # fmt: skip


def test_benchmarks_of_learning_are_among_those_that_make_bench_runs() -> None:
    known = benchmarks()
    assert {"accuracy/skew", "accuracy/federated", "accuracy/graph_network"} <= known.keys()
    assert {"accuracy/unequal", "accuracy/suite_memory", "workloads"} <= known.keys()
    assert known["accuracy/self_replay-suite"][1:] == ("--suite",)
    assert "accuracy/learning" not in known  # shared by them, and none itself


def test_accuracies_are_kept_on_a_busy_machine_and_times_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measure, "QUIET", -1.0)
    assert learning.parser("").parse_args(["--save"]).save
    assert measure.is_crowded()
    found = measure.without_times({"points": 0.1, "seconds": 3.0}, ("seconds",))
    assert found == {"points": 0.1, "seconds": None, "left_out_for_load": ["seconds"]}


def test_a_busy_machine_tells_the_accuracy_of_a_graph_network_and_not_its_speed() -> None:
    rows = [
        {"layer": "sage", "bits": way[0], "means": way[1], "stale": way[2], "accuracy": accuracy,
         "epoch_ms": ms, "work_ms": 40.0, "packing_ms": 0.0, "wire_ms": 1.0, "epoch_bytes": size,
         "load": load}
        for way, accuracy, ms, size, load in (
            (graph_network.FULL, 0.800, 600.0, 160, 1.0),
            (graph_network.STALE, 0.790, 50.0, 10, 1.0),
            (graph_network.MEANS, 0.799, 60.0, 10, 9.0),
        )
    ]  # fmt: skip
    busy = graph_network.summary(rows, {}, seeds=1)
    assert busy["points"] == pytest.approx(0.1)
    assert busy["points_at_random"] == pytest.approx(1.0)
    assert busy["bytes_ratio"] == 16
    assert busy["speedup"] is None
    quiet = graph_network.summary([{**each, "load": 1.0} for each in rows], {}, seeds=1)
    assert quiet["speedup"] == 10
    assert graph_network.summary(rows, {}, seeds=2)["points"] is None


def test_what_a_controller_saves_stands_once_all_seeds_and_skews_do() -> None:
    skews = (0.2, 1.0)
    rows = [
        row(skew.arm(text, f"by_class(skew={each})", 100), seed, [accuracy] * 3, size)
        for text, accuracy, size in ((skew.PLAIN, 0.9, 300), (skew.MET, 0.895, 10))
        for each in skews
        for seed in (1, 2)
    ]
    whole = skew.summary(rows, skews, seeds=2)
    assert whole["saved_mild"] == whole["saved_high"] == 30
    assert whole["worst_points"] == pytest.approx(0.5)
    cut = skew.summary(rows[:-1], skews, seeds=2)
    assert cut["saved_mild"] == 30
    assert cut["saved_high"] is None
    assert cut["worst_points"] is None


def test_feddst_is_held_against_others_at_the_upload_that_it_ended_with() -> None:
    arms = federated.Arms()
    found = [row(arms.moving, seed, [0.6, 0.7, 0.7, 0.7], 10) for seed in learning.SEEDS]
    found += [row(arms.beside[0], seed, [0.5, 0.6, 0.64, 0.66, 0.9], 10) for seed in learning.SEEDS]
    told = federated._masked(found, arms, OPTIONS)
    assert told["feddst_points"] == pytest.approx(100 * (0.7 - (0.6 + 0.64 + 0.66) / 3), abs=0.01)
    assert federated._masked(found[:-1], arms, OPTIONS)["feddst_points"] is None


def test_a_grown_model_saves_the_bytes_that_it_need_not_send_until_the_accuracy_is_there() -> None:
    arms = federated.Arms()
    whole = row(arms.whole, 1, [0.5, 0.6, 0.8, 0.8, 0.8, 0.8], 10)
    grown = row(arms.growing[0], 1, [0.5, 0.6, 0.8, 0.8, 0.8, 0.8], 5)
    assert federated._share(whole, grown, 0.01) == 0.5
    never = row(arms.growing[0], 1, [0.5, 0.6, 0.7, 0.7, 0.7, 0.7], 5)
    assert federated._share(whole, never, 0.01) is None
    assert math.isclose(learning.at_the_end(whole), 0.8)


def test_an_epochs_speedup_is_told_turn_by_turn() -> None:
    epochs = ((32, 600.0), (1, 100.0), (32, 640.0), (1, 80.0), (32, 700.0), (1, 100.0))
    rows = [{"bits": bits, "epoch_ms": told} for bits, told in epochs]
    assert graph_network.speedups(rows) == {"speedup": 7.0, "speedups": [6.0, 7.0, 8.0]}
