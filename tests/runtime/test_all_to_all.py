"""Three workers that hand each other parts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live
WORKER = Path(__file__).parent / "all_to_all_worker.py"


def test_each_gets_its_part_from_all_others_in_rounds_and_at_once_where_it_is_recorded(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-W", "error", "-m", "torch.distributed.run", "--nproc-per-node=3"]
    done = subprocess.run([*command, str(WORKER), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for rank in range(3):
        wanted = [[100 * ((rank - far) % 3) + rank] * 5 for far in (1, 2)]
        told = json.loads((tmp_path / f"rank-{rank}.json").read_text())
        *rounds, at_once = told
        assert rounds == [wanted] * 3
        assert at_once == sorted(wanted)
