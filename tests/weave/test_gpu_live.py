"""Triton kernels on a GPU: what ranks compute over symmetric memory is what the program means."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live
LIMITS = {"adam": 1e-5, "sgd": 1e-5, "clipped": 1e-5, "lamb": 1e-5, "half": 4e-3}


@pytest.mark.parametrize("ranks", [1, 2])
def test_fused_kernels_on_a_gpu_compute_what_the_program_means(ranks: int, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="kernels take torch tensors")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU here")
    worker = Path(__file__).parent / "gpu_worker.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    done = subprocess.run([*command, worker, tmp_path], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-4000:]
    for rank in range(ranks):
        told = json.loads((tmp_path / f"rank-{rank}.json").read_text())
        assert told.keys() == LIMITS.keys()
        assert all(told[name] <= LIMITS[name] for name in LIMITS), told
