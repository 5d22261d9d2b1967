"""The loop towards an accuracy: a short run's curve, two workers, a plan that is tried live."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.learn.told_curve import read_curve

pytestmark = [
    pytest.mark.slow,
    pytest.mark.live,
    pytest.mark.timeout(600),  # where the machine is crowded
    pytest.mark.needs("torch", "root", "namespaces", "iproute2"),
]

TARGET = 0.7
CLUSTER = "hosts: {count: 2}\nlink: {rate: 50Mbps}\n"
JOB = """
import sys, torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

STEPS, CURVE = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
centres = torch.randn(10, 64)

def drawn(count, seed):
    made = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=made)
    return centres[labels] + 2.5 * torch.randn(count, 64, generator=made), labels

net = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 10))
model = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.003)
images, labels = drawn(2000, 1)
with open(CURVE if CURVE and not rank else "/dev/null", "w") as told:
    told.write("step,accuracy\\n")
    for step in range(1, STEPS + 1):
        inputs, wanted = drawn(16, 1000 * step + rank)
        cross_entropy(model(inputs), wanted).backward()
        optimizer.step()
        optimizer.zero_grad()
        if CURVE and step % 4 == 0:
            with torch.no_grad():
                accuracy = (net(images).argmax(1) == labels).float().mean()
            told.write(f"{step},{accuracy:.4f}\\n")
dist.barrier()
dist.destroy_process_group()
"""


def run(command: list[str]) -> str:
    """What it prints. One that does not end is interrupted, so that it takes its lab down."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    begun = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        told, errors = begun.communicate(timeout=500)
    except subprocess.TimeoutExpired:
        begun.send_signal(signal.SIGINT)
        begun.communicate()
        raise
    assert begun.returncode == 0, errors[-3000:]
    return told


def test_two_workers_reach_an_accuracy_sooner_under_the_plan_that_tune_tries(
    tmp_path: Path,
) -> None:
    job, curve, cluster = (tmp_path / name for name in ("job.py", "curve.csv", "c.yaml"))
    job.write_text(JOB)
    cluster.write_text(CLUSTER)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    run([*torchrun, "--nproc-per-node", "2", str(job), "160", str(curve)])
    seen = read_curve(curve)
    there = float(seen.rounds[(seen.accuracy >= TARGET).argmax()])
    assert seen.accuracy.max() > TARGET, "the short run shows the target"

    goal = ["--goal", "time-to-accuracy", "--target", str(TARGET), "--curve", str(curve)]
    options = ["--cluster", str(cluster), "--allow", "lossy", "--only", "int8", "--steps", "18"]
    told = run([sys.executable, "-m", "paceline", "tune", "-o", str(tmp_path / "loop"), "--json",
                *goal, *options, "--", sys.executable, str(job), "100000"])  # fmt: skip
    found = json.loads(told)

    best, before = found["search"]["best"], found["search"]["unchanged"]
    assert found["recorded"]["workers"] == 2
    assert best["plan"] == ["int8"]
    assert before["reached"]["learned"]["batches"]["middle"] == pytest.approx(there, rel=0.5)
    assert best["reached"]["seconds"] < before["reached"]["seconds"]
    (trial,) = found["trials"]
    sooner = before["reached"]["seconds"] / best["reached"]["seconds"]
    assert trial["predicted"]["times"] == pytest.approx(sooner, rel=0.1)
    assert trial["gain"] is not None, trial["cause"]
    assert trial["plan"] == ["int8"]
