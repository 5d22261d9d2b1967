"""Tensor-parallel layers of torch's whose sums are overlapped, in two processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from torch import nn

from paceline.weave.rules import WeaveError
from paceline.weave.torch_row_cut import products_overlapped

WORKER = Path(__file__).parent / "row_cut_worker.py"


@pytest.mark.slow
@pytest.mark.live
def test_a_layer_cut_by_its_inputs_trains_the_same_and_is_put_back(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run([*command, str(WORKER), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    for rank in range(2):
        told = json.loads((tmp_path / f"rank-{rank}.json").read_text())
        plain, ours = told["plain"], told["overlapped"]
        assert ours["losses"] == pytest.approx(plain["losses"], rel=1e-5)
        assert ours["weights"] == pytest.approx(plain["weights"], rel=1e-4, abs=1e-6)


def test_a_model_without_such_layers_is_refused() -> None:
    entering = products_overlapped(nn.Linear(2, 2), 4)
    with pytest.raises(WeaveError, match="cut by its inputs"), entering:
        raise AssertionError("entered")
