"""The loop around real jobs: interrupted, launched by accelerate, with plans that need runs of
their own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from paceline.lab import standing
from paceline.strategies import parse
from paceline.trial import Patience, Timetable, TrialRequest, Tried, here, try_plan
from paceline.trial.lines import read_all

pytestmark = [pytest.mark.slow, pytest.mark.live, pytest.mark.needs("torch")]

TRAIN = Path(__file__).parents[2] / "examples" / "train.py"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
ENDLESS = "--model small --parallel ddp --steps 100000 --bucket-mb 0.3".split()
CLUSTER = "hosts: {count: 2}\nlink: {rate: 100Mbps}\n"
ACCELERATED = """
import sys, torch
from accelerate import Accelerator
torch.manual_seed(0)
torch.set_num_threads(1)
accelerator = Accelerator(cpu=True)
net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64))
net, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.01))
batch = torch.randn(16, 64)
for step in range(int(sys.argv[1])):
    accelerator.backward(net(batch).square().mean())
    optimizer.step()
    optimizer.zero_grad()
"""
LOADED = """
import sys, time, torch
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 100000
    def __getitem__(self, row): return torch.full((64,), float(row % 7))
net = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
for step, batch in enumerate(torch.utils.data.DataLoader(Rows(), batch_size=16)):
    if step == int(sys.argv[1]):
        break
    net(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def tuning(folder: Path, options: Sequence[str], job: Sequence[str]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "paceline", "tune", "-o", str(folder), "--json", *options]
    return subprocess.Popen(
        [*command, "--", *job], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def begun(loop: "subprocess.Popen[str]", trial: Path) -> None:
    """Wait until ranks of the trial write their steps."""
    while not any(len(one.steps) > 8 for one in read_all(trial)):
        try:
            code = loop.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(f"the loop ended with {code} before a trial began: {loop.communicate()}")


def left(folder: Path) -> Iterator[str]:
    """Processes that were started for the loop."""
    for found in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (found / "environ").read_bytes():
                yield (found / "cmdline").read_text()
        except OSError:
            continue  # it has just ended, or is another user's


@pytest.mark.parametrize(
    "where",
    [
        "here",
        pytest.param("lab", marks=pytest.mark.needs("root", "namespaces", "iproute2")),
    ],
)
def test_an_interrupted_trial_leaves_nothing_running_and_keeps_what_was_found(
    where: str, tmp_path: Path
) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    options = ["--allow", "lossy", "--only", "int8", "--steps", "200"]
    options += ["--cluster", str(tmp_path / "cluster.yaml")] if where == "lab" else []
    job = (*(TORCHRUN if where == "here" else (sys.executable,)), str(TRAIN), *ENDLESS)
    folder = tmp_path / "loop"
    loop = tuning(folder, options, job)
    begun(loop, folder / "trial-1")
    loop.send_signal(signal.SIGINT)
    told, _ = loop.communicate(timeout=60)
    assert loop.returncode == 130
    outcome = json.loads((folder / "outcome.json").read_text())
    assert outcome["stopped"] == json.loads(told)["stopped"] == "interrupted"
    assert outcome["search"]["best"]["plan"] == ["int8"]
    assert list(left(folder)) == []
    assert f"tune-{loop.pid}" not in standing()


def test_an_interrupted_recording_leaves_nothing_running(tmp_path: Path) -> None:
    folder = tmp_path / "loop"
    loop = tuning(folder, ["--only", "buckets"], (*TORCHRUN, str(TRAIN), *ENDLESS))
    begun(loop, folder / "recording" / "watch")
    loop.send_signal(signal.SIGINT)
    loop.communicate(timeout=60)
    assert loop.returncode == 130
    assert not (folder / "outcome.json").exists()
    assert list(left(folder)) == []


@pytest.mark.needs("accelerate")
def test_a_job_that_accelerate_launches_is_tuned(tmp_path: Path) -> None:
    """`--multi_gpu` is its launcher of several processes, also where the script asks for CPUs."""
    (tmp_path / "job.py").write_text(ACCELERATED)
    told = "--multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no"
    launcher = (sys.executable, "-m", "accelerate.commands.launch", *told.split())
    options = ["--allow", "lossy", "--only", "fp16", "--steps", "18"]
    loop = tuning(tmp_path / "loop", options, (*launcher, str(tmp_path / "job.py"), "100000"))
    told, errors = loop.communicate(timeout=200)
    assert loop.returncode == 0, errors
    found = json.loads(told)
    assert found["recorded"]["workers"] == 2
    assert found["recorded"]["predicted_step_ns"] > 0
    assert [trial["finding"] for trial in found["trials"] if trial["gain"] is None] == []


def test_a_plan_that_cannot_take_turns_gets_runs_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(LOADED)
    plan = (parse("data_workers(count=1)"),)
    asked = TrialRequest(
        (sys.executable, str(tmp_path / "job.py"), "100000"),
        tmp_path / "trial", Tried(plan), Timetable(a_side=12, block=3), Patience(100.0, 30.0),
    )  # fmt: skip
    outcome = try_plan(asked, {**os.environ, "OMP_NUM_THREADS": "1"}, here)
    assert outcome.gain is not None, outcome.cause
    runs = sorted(path.name for path in (tmp_path / "trial").iterdir())
    assert runs == [f"run-{number}" for number in range(1, 9)]
    sides = [read_all(tmp_path / "trial" / run)[0].began.blocks[0].side.value for run in runs]
    assert sorted(sides) == ["again"] * 2 + ["baseline"] * 2 + ["plan"] * 4
