"""From a recording in the lab to a prediction and its proof there."""

import os
import sys
from pathlib import Path

import pytest

from paceline.cluster import Cluster, Device, Host, Link, dump
from paceline.cluster.machine import Machine
from paceline.graph import OpKind
from paceline.predict import Question, predict
from paceline.record.launch import RecordRequest, launch
from paceline.strategies import Plan, strategy
from paceline.trace.runs import open_run
from paceline.verify import Proof, Verdict, VerifyError, prove, recorded_command

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.net,
    pytest.mark.live,
    pytest.mark.needs("root", "namespaces", "iproute2"),
]

JOB = """
import os, torch, torch.distributed as dist
torch.manual_seed(0)
dist.init_process_group("gloo")
net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256))
model = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(16, 256)
for _ in range(30):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
dist.barrier()
os._exit(0)  # an orderly end now and then meets an abort in gloo's own threads
"""


def cluster(rate: float) -> Cluster:
    return Cluster(tuple(Host(f"h{i}", Device("core")) for i in range(2)), Link.both_ways(rate))


def test_a_job_that_fails_in_the_lab_is_said_with_the_end_of_its_log(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "raise SystemExit('no data here')")
    with pytest.raises(VerifyError, match=r"was not measured in the lab(.|\n)*no data here"):
        prove(Proof(command, cluster(12.5e6)), os.environ, tmp_path / "run")
    assert recorded_command(tmp_path / "run") == command


def test_a_slower_link_is_predicted_and_proved_to_be_slower(tmp_path: Path) -> None:
    script, described = tmp_path / "job.py", tmp_path / "cluster.yaml"
    script.write_text(JOB)
    described.write_text(dump(cluster(12.5e6)))
    command = (sys.executable, str(script))
    in_lab = (sys.executable, "-m", "paceline", "lab", "run", "--json",
              "--name", f"test-{os.getpid()}", "--cluster", str(described), "--")  # fmt: skip
    request = RecordRequest((*in_lab, *command), tmp_path / "run", steps=4, plain=3)
    done = launch(request, os.environ)
    assert done.exit_code == 0
    assert recorded_command(tmp_path / "run") == command
    graph = open_run(tmp_path / "run")
    assert len(graph.facts.parameters) == 4

    slow = cluster(2.5e6)
    question = Question(machine=Machine(2.0))
    fast_guess = predict(graph, (), cluster(12.5e6), question)
    guess = predict(graph, (), slow, question)
    verdict = Verdict(guess, prove(Proof(command, slow, steps=4), os.environ))
    sent_ns = 4 * (2 * 256 * 256 + 2 * 256) / 2.5e6 * 1e9
    assert guess.step_ns > fast_guess.step_ns
    assert guess.by_class["communication"] > 0.9 * sent_ns
    under_fp16 = Proof(command, slow, steps=4, plan=Plan((strategy("fp16"),)))
    prove(under_fp16, os.environ, tmp_path / "fp16")
    sent = [float(g.ops.size_bytes[g.ops.kind == OpKind.COLLECTIVE].max())
            for g in (open_run(tmp_path / "fp16"), graph)]  # fmt: skip
    assert sent[0] == sent[1] / 2
    # No network can be faster than its links; how much slower this machine is, is not asserted.
    assert verdict.measured.step_ns > 0.9 * sent_ns
    assert verdict.differences
