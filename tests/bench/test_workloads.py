"""Every workload of the suite learns."""

import subprocess
import sys
from pathlib import Path

import pytest

from paceline.bench import Setup, Training, catalogue, named

pytestmark = pytest.mark.needs("torch")
STEPS = 2
LARGE = ("moe", "resnet20", "resnet50", "speech", "spiking", "transformer", "vit")  # seconds each
FEWEST = {"gnn": 256}  # nodes, so that some have a label


def tiny(name: str) -> Training:
    import torch

    found = named(name)
    if lacking := catalogue.missing(found):
        pytest.skip(f"needs {', '.join(lacking)}")
    torch.manual_seed(1)
    return found.build(Setup(FEWEST.get(name, 4), samples=32))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name
        for name in catalogue.names()
    ],
)
def test_two_steps_on_a_batch_lose_less(name: str) -> None:
    training = tiny(name)
    batch = next(training.batches)
    losses = [float(training.step(batch)) for _ in range(1 + STEPS)]
    assert losses[-1] < losses[0]


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.parametrize("name", ["dlrm", "moe", "gnn", "wgan", "spiking", "seq2seq"])
def test_two_workers_train(name: str, tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    found = named(name)
    batch = str(min(found.pace.batches))
    line = [*torchrun, "--nproc-per-node", "2", "-m", catalogue.module_of(name), "--batch", batch,
            "--steps", "4", "--times", str(tmp_path / "times")]  # fmt: skip
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(list(tmp_path.glob("times.*"))) == 2


def test_the_page_of_workloads_names_each() -> None:
    page = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text()
    assert not [name for name in catalogue.names() if f"| {name} |" not in page.replace("\\", "")]
