"""Training over the transport: as a DDP hook, and as a backend of torch.distributed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.wire import WireError

pytestmark = pytest.mark.needs("torch", "native", "linux")
WORKER = Path(__file__).parent / "torch_worker.py"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("wire")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run([*command, str(WORKER), str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.live
@pytest.mark.parametrize("way", ["hook", "backend"])
def test_where_nothing_is_lost_the_very_same_weights_are_learnt(
    way: str, runs: list[dict[str, Any]]
) -> None:
    for run in runs:
        assert run[way] == run["plain"]


@pytest.mark.live
def test_the_backend_leaves_what_is_no_sum_of_floats_to_gloo(runs: list[dict[str, Any]]) -> None:
    assert [run["others"] for run in runs] == [[3.0, 1.0, 3.0]] * 2


def test_settings_of_the_backend_are_read_from_a_line() -> None:
    from paceline.wire.torch_backend import settings

    bounds, tuning = settings("gradients=0.01,link=100e6")
    assert bounds.gradients == 0.01
    assert tuning.link_bits_per_s == 100e6
    with pytest.raises(WireError, match="give gradients=NUMBER"):
        settings("gradient=0.01")
