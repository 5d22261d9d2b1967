"""`paceline strategies`, `predict --save-plan` and `apply`: from a recording to a changed job."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from paceline.cli import main
from paceline.graph import Collective, DType, Graph, OpKind
from paceline.record.launch import hooked
from paceline.strategies import Plan, load_plan, parse, save_plan
from paceline.strategies.applying import PLAN
from paceline.strategies.plan import MadeFor, digest
from paceline.trace.runs import open_run

if TYPE_CHECKING:
    from paceline.record.launch import Recording

TRAIN = Path(__file__).parents[2] / "examples" / "train.py"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
JOB = (*TORCHRUN, str(TRAIN), *"--model small --parallel ddp --steps 44 --bucket-mb 0.3".split())
ALONE = """
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(5):
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
"""
SHARED = """
import os, torch, torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
for _ in range(4):
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
dist.destroy_process_group()  # the plan ends here, and with it the report
os._exit(0)  # an orderly end now and then meets an abort in gloo's own threads
"""
PAGE = Path(__file__).parents[2] / "docs" / "strategies.md"


def told(command: list[str], code: int = 0) -> tuple[dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "paceline", *command], capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == code, done.stderr[-3000:]
    start = done.stdout.find("{\n")
    return (json.loads(done.stdout[start:]) if start >= 0 else {}), done.stderr


def test_the_page_of_strategies_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["strategies", "--markdown"]) == 0
    written = capsys.readouterr().out
    assert written == PAGE.read_text(), "run `paceline strategies --markdown > docs/strategies.md`"


@pytest.mark.live
@pytest.mark.needs("torch")
def test_strategies_say_whether_they_fit_a_run(ddp_recording: "Recording") -> None:
    rows, _ = told(["strategies", str(ddp_recording.folder), "--json"])
    refusals = {row["name"]: row["refusal"] for row in rows["strategies"]}
    assert refusals["bf16"] is None
    assert refusals["buckets"] is None
    assert "needs select" in refusals["scale"]


@pytest.mark.live
@pytest.mark.needs("torch")
def test_a_plans_files_can_be_imported_while_torch_still_is(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    save_plan(Plan((parse("overlap_update"),)), plan)
    environment = {**hooked(os.environ), PLAN: str(plan)}
    done = subprocess.run(
        [sys.executable, "-c", "import torch"], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.live
@pytest.mark.needs("torch")
def test_a_plan_is_predicted_saved_applied_and_seen_in_the_recording_of_the_changed_job(
    ddp_recording: "Recording", tmp_path: Path
) -> None:
    cluster, plan, run = (tmp_path / name for name in ("cluster.yaml", "plan.json", "run"))
    cluster.write_text("hosts: 2\nlink: {rate: 1Gbps}\n")
    changes = ["--with", "buckets(size_bytes=150000)", "--with", "bf16"]
    where = ["--cluster", str(cluster), "--save-plan", str(plan)]
    told(["predict", str(ddp_recording.folder), *changes, *where, "--json"])
    assert load_plan(plan).made_for is not None

    shown, said = told(["apply", str(plan), "-o", str(run), "--json", "--", *JOB])
    assert [rank["steps"] for rank in shown["ranks"]] == [43, 43], said
    for rank in shown["ranks"]:
        assert rank["payload_bytes"] == shown["predicted"]["payload_bytes"]
        assert np.isclose(rank["wire_bytes"], shown["predicted"]["wire_bytes"], rtol=1e-3)

    recorded = open_run(run).ops
    talks = (recorded.kind == OpKind.COLLECTIVE) & (recorded.dtype == DType.BFLOAT16)
    a_step = recorded.step == recorded.step[talks].max()
    mine = talks & a_step & (recorded.rank == 0)
    parameters = open_run(ddp_recording.folder).facts.parameters
    assert recorded.size_bytes[mine].sum() == sum(p.size_bytes for p in parameters) / 2
    # The buckets are those that DDP would cut, and the first step under the plan has DDP's guess.
    assert np.isclose(shown["ranks"][0]["calls"], mine.sum(), rtol=0.1)


@pytest.mark.live
@pytest.mark.needs("torch")
def test_a_job_wrapped_in_fsdp2_is_recorded_with_the_calls_predicted_of_the_plain_one(
    tmp_path: Path, ddp_recording: "Recording"
) -> None:
    plan, run = tmp_path / "plan.json", tmp_path / "run"
    save_plan(Plan((parse("fully_sharded"),)), plan)
    told(["apply", str(plan), "-o", str(run), "--json", "--", *JOB])
    found, plain = open_run(run), open_run(ddp_recording.folder)
    assert calls_in_a_step(found) == calls_in_a_step(parse("fully_sharded").transform(plain))
    assert found.facts.update_shards == 2


@pytest.mark.live
@pytest.mark.needs("torch")
def test_an_unchanged_script_whose_workers_share_pairs_sends_what_was_predicted(
    tmp_path: Path, ddp_recording: "Recording"
) -> None:
    cluster, plan, run = (tmp_path / name for name in ("cluster.yaml", "plan.json", "run"))
    cluster.write_text("hosts: 2\nlink: {rate: 1Gbps}\n")
    change = "tensor_parallel(degree=2)"
    where = ["--cluster", str(cluster), "--save-plan", str(plan)]
    told(["predict", str(ddp_recording.folder), "--with", change, *where, "--json"])
    shown, said = told(["apply", str(plan), "-o", str(run), "--json", "--", *JOB])
    for rank in shown["ranks"]:
        for what in ("calls", "payload_bytes", "wire_bytes"):
            assert rank[what] == shown["predicted"][what], said
    found, plain = open_run(run), open_run(ddp_recording.folder)
    assert calls_in_a_step(found) == calls_in_a_step(parse(change).transform(plain))


def calls_in_a_step(graph: Graph) -> set[tuple[str, int, float]]:
    """Collectives of the first rank: their kind, their bytes, how often they are made."""
    ops = graph.ops
    mine = (ops.kind == OpKind.COLLECTIVE) & (ops.rank == 0)
    pairs = np.stack([ops.collective[mine].astype(np.int64), ops.size_bytes[mine]])
    kinds, counts = np.unique(pairs, axis=1, return_counts=True)
    steps = len(np.unique(ops.step[mine]))
    return {
        (Collective(kind).name, size, count / steps)
        for (kind, size), count in zip(kinds.T.tolist(), counts.tolist())
    }


@pytest.mark.live
@pytest.mark.needs("torch")
def test_a_plan_made_for_another_job_stops_the_job_unless_forced(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    made = {"model": "another", "world_size": 2, "version": "0"}
    plan.write_text(json.dumps({"paceline_plan": 1, "strategies": ["fp16"], "made_for": made}))
    short = [*JOB, "--steps", "3"]
    _, said = told(["apply", str(plan), "--", *short], code=1)
    assert "the plan was made for the model another" in said
    _, said = told(["apply", str(plan), "--force", "--", *short])
    assert "rank 1: 2 steps under the plan" in said


@pytest.mark.live
@pytest.mark.needs("torch")
def test_steps_are_counted_where_no_gradients_travel(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    save_plan(Plan((parse("fused_optimizer"),)), plan)
    _, said = told(["apply", str(plan), "--", sys.executable, "-c", ALONE])
    assert "rank 0: 4 steps under the plan; no exchange of gradients went through it" in said


@pytest.mark.live
@pytest.mark.needs("torch")
def test_a_plan_fits_the_outer_of_two_optimizers_as_its_recording_does(tmp_path: Path) -> None:
    plan, script = tmp_path / "plan.json", tmp_path / "train.py"
    script.write_text(SHARED)
    fits = MadeFor(digest([("weight", 32), ("bias", 8)]), 2)
    save_plan(Plan((parse("fp16"),), fits), plan)
    shown, said = told(["apply", str(plan), "--json", "--", *TORCHRUN, str(script)])
    assert [rank["steps"] for rank in shown["ranks"]] == [3, 3], said


def test_what_is_predicted_alone_is_refused_before_the_job_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, ran = tmp_path / "plan.json", tmp_path / "ran"
    save_plan(Plan((parse("fp8"),)), plan)
    touch = [sys.executable, "-c", f"open({str(ran)!r}, 'w')"]
    assert main(["apply", str(plan), "--", *touch]) == 1
    assert "cannot be switched on in a running job. Convert the model" in capsys.readouterr().err
    assert not ran.exists()
