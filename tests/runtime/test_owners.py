"""An update cut among replicas: each keeps its own state, a checkpoint of one rank holds all."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).parent / "owners_worker.py"


@pytest.mark.live
def test_one_rank_alone_saves_a_checkpoint_of_all_states(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run([*command, str(WORKER), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2)]
    assert sum(told["kept"] for told in ranks) == 6
    assert all(0 < told["kept"] < 6 for told in ranks)
    for told in ranks:
        assert told["left"] == told["kept"]
        assert told["after"] == 6
        assert told["weights"] == told["plain"]
        assert told["closed"] == told["plain"]
    assert ranks[0]["saved"] == 6
    assert ranks[0]["resumed"] == 3
