"""A job of one's own in a sweep."""

import json
import sys
from pathlib import Path

import pytest

from paceline.bench.asked import Sweep
from paceline.bench.errors import BenchError
from paceline.bench.lessons import fits
from paceline.bench.own import filled, named_after
from paceline.bench.point import Key, Unfit
from paceline.cli import main

LINE = ("torchrun", "--nproc-per-node", "{workers}", "jobs/train.py", "--batch={batch}", "{steps}")
JOB = """
import sys, torch
batch, steps = map(int, sys.argv[1:])
if batch > 100:
    raise MemoryError("DefaultCPUAllocator: can't allocate memory")
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(steps):
    optimizer.zero_grad()
    model(torch.rand(batch, 64)).square().mean().backward()
    optimizer.step()
"""


def test_a_command_is_filled_for_each_measurement() -> None:
    assert filled(LINE, Key("train", 16, 2), 29) == (
        "torchrun", "--nproc-per-node", "2", "jobs/train.py", "--batch=16", "29",
    )  # fmt: skip
    assert filled(("x", '{"a": {batch}}'), Key("x", 8, 1), 3)[1] == '{"a": 8}'


def test_a_job_is_called_after_its_script_or_its_program() -> None:
    assert named_after(LINE) == "train"
    assert named_after(("/usr/bin/lightning", "fit")) == "lightning"


def test_a_command_that_no_batch_reaches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"put \{batch\} where the command takes it"):
        Sweep(tmp_path, batches=(8,), own=("python", "train.py")).keys()
    with pytest.raises(BenchError, match="give --batch-sizes"):
        Sweep(tmp_path, own=LINE).keys()


def test_several_numbers_of_workers_must_reach_the_command(tmp_path: Path) -> None:
    line = ("python", "train.py", "{batch}")
    with pytest.raises(BenchError, match=r"put \{workers\}"):
        Sweep(tmp_path, batches=(8,), workers=(1, 2), own=line).keys()
    keys = Sweep(tmp_path, batches=(8, 16), workers=(1, 2), own=LINE).keys()
    assert keys == [Key("train", batch, workers) for workers in (1, 2) for batch in (8, 16)]


def test_another_command_is_another_measurement(tmp_path: Path) -> None:
    one, other = (Sweep(tmp_path, own=("train.py", end)).setting for end in ("a", "b"))
    assert one != other


def test_a_job_without_a_limit_says_only_that_a_batch_does_not_fit() -> None:
    assert fits(Unfit(Key("train", 512, 1), 0, 384)) == "batch 512 does not fit; 384 does"


def test_a_job_beside_names_of_workloads_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = ["bench", "run", "gnn", "--job", "python train.py {batch}", "-o", str(tmp_path)]
    assert main(line) == 1
    assert "--job is measured in place of workloads" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.needs("torch", "linux")
def test_a_job_is_measured_at_each_batch_and_told_where_it_does_not_fit(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(JOB)
    job = f"{sys.executable} {script} {{batch}} {{steps}}"
    line = ["bench", "run", "--job", job, "--batch-sizes", "32", "64", "128", "--steps", "3",
            "-o", str(tmp_path / "bench"), "--json"]  # fmt: skip
    assert main(line) == 0
    told = json.loads(capsys.readouterr().out)
    assert [point["key"]["batch"] for point in told["points"]] == [32, 64]
    assert told["points"][0]["structure"]["parts"]["weights"] == 4 * (64 * 64 + 64)
    assert 64 <= told["unfit"][0]["fits"] <= 100
