"""Unequal batches with weighted gradients are the plain job's steps, on real workers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.runtime.exchange import ExchangeError
from paceline.runtime.uneven import parts

WORKER = Path(__file__).parent / "uneven_worker.py"
UNEVEN = "uneven_batches(shares=(3.0, 1.0))"


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=6), st.integers(0, 200))
def test_every_sample_is_dealt_and_nobody_goes_without(shares: list[float], more: int) -> None:
    samples = len(shares) + more
    counts = parts(samples, shares)
    assert sum(counts) == samples
    assert min(counts) >= 1
    exact = [samples * share / sum(shares) for share in shares]
    if min(exact) >= 1:
        assert all(abs(count - each) < 1 for count, each in zip(counts, exact))


def test_more_workers_than_samples_is_an_error() -> None:
    with pytest.raises(ExchangeError, match="1 samples cannot be dealt to 2 workers"):
        parts(1, [1, 1])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("uneven")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run([*command, str(WORKER), str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.live
def test_uneven_batches_train_the_plain_jobs_weights(runs: list[dict[str, Any]]) -> None:
    """The last global batch of an epoch is smaller, and weighs its samples anew."""
    for run in runs:
        plain, uneven = run[""], run[UNEVEN]
        assert plain["sizes"] == [4, 4, 4, 4, 4, 4, 1] * 3
        assert uneven["length"] == plain["length"] == 7
        assert uneven["loss"] == pytest.approx(plain["loss"], rel=1e-5)
        assert uneven["weights"] == pytest.approx(plain["weights"], rel=1e-4, abs=1e-6)
        assert uneven["evaluated"] == plain["evaluated"]
    assert runs[0][UNEVEN]["sizes"] == [6, 6, 6, 6, 6, 6, 1] * 3
    assert runs[1][UNEVEN]["sizes"] == [2, 2, 2, 2, 2, 2, 1] * 3


@pytest.mark.live
def test_without_weights_uneven_batches_train_others(runs: list[dict[str, Any]]) -> None:
    """So that equal weights and losses above say something."""
    for run in runs:
        plain, alike = run[""], run["unweighted"]
        assert abs(alike["loss"] / plain["loss"] - 1) > 1e-3
        assert alike["weights"] != pytest.approx(plain["weights"], rel=1e-2, abs=1e-3)


@pytest.mark.live
def test_a_codec_compresses_the_weighted_gradients(runs: list[dict[str, Any]]) -> None:
    for run in runs:
        both, plain = run[f"{UNEVEN} + bf16"], run[""]
        assert both["loss"] == pytest.approx(plain["loss"], rel=0.02)
        assert both["weights"] != run[UNEVEN]["weights"]
    assert runs[0][UNEVEN]["weights"] == runs[1][UNEVEN]["weights"]


@pytest.mark.live
def test_a_loader_that_cannot_be_dealt_anew_is_refused(runs: list[dict[str, Any]]) -> None:
    assert "from a DataLoader with a DistributedSampler" in runs[0]["refused"]
