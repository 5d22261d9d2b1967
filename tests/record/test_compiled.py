"""Recording leaves compiled code alone: nothing is compiled anew for it, nothing of ours is."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

JOB = """
import sys
import torch
from torch import nn
from torch._dynamo.utils import counters
import paceline

torch.set_num_threads(1)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8))

    def forward(self, x):
        return x + self.inner(x).relu()

model = Block()
called = torch.compile(model, backend="eager") if sys.argv[2] == "wrapped" else model
if sys.argv[2] == "in place":
    model.compile(backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def step():
    optimizer.zero_grad()
    called(torch.ones(4, 8)).sum().backward()
    optimizer.step()

for _ in range(3):
    step()
before = dict(counters["frames"])
assert before["ok"]
with paceline.record(sys.argv[1], steps=3, plain=2):
    for _ in range(30):
        step()
assert dict(counters["frames"]) == before, (before, dict(counters["frames"]))
"""


@pytest.mark.parametrize("how", ["wrapped", "in place"])
def test_a_compiled_job_is_compiled_no_second_time(how: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-W", "error::UserWarning:__main__", "-c", JOB, tmp_path, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "rank-0.trace.json").exists()
