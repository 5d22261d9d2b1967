"""A live job's gradients: each rank's own before the exchange, and their mean behind it."""

import json
import os
import sys
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.trial import GradientRun, TrialError, gradients_of
from paceline.trial.gradients import Began, GradientStep, encode, file_of, seen

JOB = """
import sys, torch
import torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = torch.nn.Linear(3, 1, bias=False)
with torch.no_grad():
    net.weight.zero_()
net = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
own = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])[dist.get_rank()]
for step in range(int(sys.argv[1])):
    net(own[None]).sum().backward()  # its gradient is `own`
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def written(folder: Path, ranks: int, world: int, steps: int) -> None:
    for rank in range(ranks):
        lines = [Began(rank, world), *(GradientStep(n, 2.0 + rank, 1.5, 2) for n in range(steps))]
        file_of(folder, rank).write_bytes(b"".join(encode(line) + b"\n" for line in lines))


def test_ranks_lengths_are_averaged_and_passes_count(tmp_path: Path) -> None:
    written(tmp_path, 2, 2, 3)
    found = seen(tmp_path)
    assert found.workers == 2
    assert [(n.small, n.big, n.times) for n in found.norms] == [(2.5, 1.5, 4)] * 3


def test_a_rank_that_wrote_nothing_makes_the_steps_unknown(tmp_path: Path) -> None:
    written(tmp_path, 1, 2, 3)
    assert seen(tmp_path).norms == ()


@pytest.mark.live
@pytest.mark.needs("torch")
def test_two_workers_gradients_are_seen_before_and_behind_the_exchange(tmp_path: Path) -> None:
    """Two unit vectors at right angles: each has length 1, their mean squared length a half."""
    script = tmp_path / "job.py"
    script.write_text(JOB)
    asked = GradientRun((*TORCHRUN, str(script), "40"), tmp_path / "run", steps=12)
    found = gradients_of(asked, os.environ)
    assert len(found.norms) == 12
    assert {(n.small, n.big, n.times) for n in found.norms} == {(1.0, 0.5, 2)}


@pytest.mark.live
@pytest.mark.needs("torch")
def test_a_job_that_makes_no_step_says_so(tmp_path: Path, capsys) -> None:
    words = ["-o", str(tmp_path / "noise.json"), "--", sys.executable, "-c", "print('no training')"]
    assert main(["learn", "noise", *words]) == 1
    assert "no optimizer step was seen" in capsys.readouterr().err
    with pytest.raises(TrialError, match="failed before"):
        gradients_of(GradientRun((sys.executable, "-c", "1/0"), tmp_path / "run"), os.environ)


def test_noise_of_another_number_of_workers_is_told_in_their_batches(tmp_path: Path) -> None:
    from paceline.learn.noise import load_noise

    told = {"format": 1, "batches": 2.0, "low": 1.0, "high": None, "workers": 2, "steps": 20}
    (tmp_path / "noise.json").write_text(json.dumps(told))
    assert load_noise(tmp_path / "noise.json").of_workers(4) == 1.0
