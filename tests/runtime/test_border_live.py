"""Borders put between the stages of a live pipeline of torch's, two processes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from paceline.runtime.exchange import Sent
from paceline.runtime.stages import PipelineError
from paceline.strategies import parse
from paceline.strategies.border_topk import BorderTopK

WORKER = Path(__file__).parent / "border_worker.py"
WIDTH, SAMPLES, BATCHES = 16, 12, 3
THIN = "border_topk(ratio=0.25)"

Told = list[dict[str, Any]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("border")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run([*command, str(WORKER), str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.slow
@pytest.mark.live
def test_a_border_that_lets_all_pass_trains_the_very_same(told: Told) -> None:
    for rank in told:
        assert rank["border_topk(ratio=1.0)"]["weights"] == rank[""]["weights"]
        assert rank["border_topk(ratio=1.0)"]["losses"] == rank[""]["losses"]


@pytest.mark.slow
@pytest.mark.live
def test_a_thin_border_learns_otherwise_and_about_as_well(told: Told) -> None:
    losses, plain = told[1][THIN]["losses"], told[1][""]["losses"]
    assert losses[:2] == plain[:2]
    assert losses[2:] != plain[2:]
    assert losses[-1] < losses[0]
    assert losses[-1] < 1.5 * plain[-1]


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.parametrize("text", ["border_topk(ratio=1.0)", THIN])
def test_the_bytes_that_cross_are_the_predicted_ones(text: str, told: Told) -> None:
    change = parse(f"{text[:-1]}, width={WIDTH})")
    assert isinstance(change, BorderTopK)
    whole = 4 * WIDTH * SAMPLES // BATCHES
    sent = [rank[text]["sent"] for rank in told]
    assert [each["steps"] for each in sent] == [20, 20]
    assert sent[0]["payload_bytes"] == BATCHES * change.down_bytes(whole)
    assert sent[1]["payload_bytes"] == BATCHES * change.up_bytes(whole)
    assert [each["calls"] for each in sent] == [BATCHES, BATCHES]


def test_without_torchs_pipelines_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from paceline.runtime.stages.torch_border import Border
    from paceline.runtime.stages.torch_pipelining import bordered

    monkeypatch.delitem(sys.modules, "torch.distributed.pipelining", raising=False)
    entering = bordered(Border(0.5), None, Sent())
    with pytest.raises(PipelineError, match="no stages of torch"), entering:
        raise AssertionError("entered")
