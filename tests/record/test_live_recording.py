"""Real jobs of two gloo workers, recorded without a change to their script."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from paceline.record.sidecar import Mode

pytest.importorskip("torch")

import torch

from paceline.errors import TraceError
from paceline.graph import Graph, OpKind, Overlay, without_core_waits
from paceline.graph.condense import condense
from paceline.record import sidecar
from paceline.record.held import MOST
from paceline.record.launch import Recording, RecordRequest, launch
from paceline.record.sidecar import (
    Backward,
    Collective,
    CoreTime,
    Cost,
    Gradient,
    Pulsed,
    RecordedBucket,
    Step,
    Wait,
)
from paceline.replay import replay
from paceline.trace.readers import chrome
from paceline.trace.readers.source import Source
from paceline.trace.runs import build_run, read_run
from paceline.trace.trace import Category

pytestmark = pytest.mark.live
TRAIN = Path(__file__).parents[2] / "examples" / "train.py"
STEPS = 4


@dataclass(frozen=True)
class Recorded:
    """A finished recording, and one rank's facts of it."""

    done: Recording
    told: sidecar.Sidecar
    folder: Path

    def steps(self, mode: str) -> list[Step]:
        return [step for step in self.told.of(Step) if step.mode == mode]

    def issued(self) -> list[Collective]:
        return self.told.of(Collective)

    def graph(self) -> Graph:
        return build_run(self.folder)


def record(
    folder: Path, parallel: str, *settings: str, steps: int = STEPS, turns: bool = False
) -> Recorded:
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
    script = (str(TRAIN), "--model", "small", "--parallel", parallel, "--steps", "34")
    command, out = (*torchrun, *script, *settings), folder / "run"
    request = RecordRequest(command, out, steps=steps, plain=2, turns=turns)
    done = launch(request, os.environ)
    return Recorded(done, sidecar.read(request.folder / sidecar.facts_name(0)), request.folder)


def slower_network(graph: Graph) -> float:
    """By what factor the job takes longer once every collective takes ten times as long."""
    edits = Overlay(graph)
    edits.scale(edits.select("kind=collective"), 10.0)
    return replay(edits.freeze()).step_ns / replay(graph).step_ns


@pytest.fixture(scope="module")
def ddp(ddp_recording: Recording) -> Recorded:
    facts = ddp_recording.folder / sidecar.facts_name(0)
    return Recorded(ddp_recording, sidecar.read(facts), ddp_recording.folder)


def test_every_rank_records_the_steps_it_was_asked_for(ddp: Recorded) -> None:
    assert [rank.recorded for rank in ddp.done.ranks] == [STEPS, STEPS]
    assert {rank.reason for rank in ddp.done.ranks} == {"complete"}
    assert len(ddp.steps("recorded")) == STEPS
    assert len(ddp.steps("plain")) == 4


def test_each_bucket_of_each_step_is_one_collective_with_its_number(ddp: Recorded) -> None:
    buckets = ddp.told.of(RecordedBucket)
    assert len(buckets) > 1
    issued = ddp.issued()
    assert [one.bucket for one in issued] == [bucket.index for bucket in buckets] * STEPS
    assert [one.size_bytes for one in issued] == [bucket.size_bytes for bucket in buckets] * STEPS
    numbers = [one.sequence for one in issued]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert {one.op for one in issued} == {one.executed for one in issued} == {"all_reduce"}


def test_every_gradient_is_in_a_bucket_and_seen_once_in_the_detail_step(ddp: Recorded) -> None:
    grouped = [index for bucket in ddp.told.of(RecordedBucket) for index in bucket.parameters]
    ready = [gradient.parameter for gradient in ddp.told.of(Gradient)]
    assert sorted(grouped) == sorted(ready) == list(range(10))


def test_a_synchronised_backward_pass_lies_within_each_step(ddp: Recorded) -> None:
    passes = ddp.told.of(Backward)[-STEPS:]
    for step, one in zip(ddp.steps("recorded"), passes):
        assert one.synced
        assert step.begin_ns < one.begin_ns < one.end_ns < step.end_ns


def test_an_events_price_is_positive_and_below_ten_microseconds(ddp: Recorded) -> None:
    assert 0 < ddp.told.of(Cost)[0].op_ns < 10_000


def test_prices_are_told_again_once_the_plain_steps_behind_have_run(ddp: Recorded) -> None:
    first, *again = ddp.told.of(Cost)
    assert len(again) == (0 if torch.cuda.is_available() else 1)
    assert all(later.recorded_step_ns == first.recorded_step_ns for later in again)


def test_the_ranks_become_one_graph_whose_collectives_span_them(ddp: Recorded) -> None:
    graph = ddp.graph()
    chosen = graph.ops.kind == OpKind.COLLECTIVE
    members = [
        graph.ops.rank[chosen & (graph.ops.instance == i)] for i in set(graph.ops.instance[chosen])
    ]
    assert len(members) == len(ddp.issued())
    assert all(sorted(ranks) == [0, 1] for ranks in members)


def test_the_replay_lasts_as_long_as_the_recorded_steps_less_the_recorder(ddp: Recorded) -> None:
    told = [sidecar.read(ddp.folder / sidecar.facts_name(rank)).of(Step) for rank in (0, 1)]
    steps = [step for steps in told for step in steps if step.mode is Mode.RECORDED]
    recorded = max(step.end_ns for step in steps) - min(step.begin_ns for step in steps)
    assert 0.5 * recorded < replay(ddp.graph()).step_ns < 1.05 * recorded


def test_each_recorded_step_runs_the_operators_of_the_others(ddp: Recorded) -> None:
    trace = chrome.read(Source(ddp.folder / sidecar.trace_name(0)))
    begins = np.sort(trace.events.start_ns[trace.events.category == Category.CPU_OP])
    counts = {
        int(np.diff(np.searchsorted(begins, [step.begin_ns, step.end_ns]))[0])
        for step in ddp.steps("recorded")
    }
    assert len(counts) == 1
    assert counts != {0}


def test_steps_tell_what_the_training_thread_ran_and_waited_for_a_core(ddp: Recorded) -> None:
    steps = [*ddp.steps("plain"), *ddp.steps("recorded")]
    counts = [step.counts for step in steps if step.counts is not None]
    assert len(counts) == len(steps)
    if counts[0].run_ns is None:
        pytest.skip("this kernel keeps no schedstat")
    assert all(one.run_ns and one.delay_ns is not None for one in counts)
    got = sum((one.run_ns or 0) + (one.delay_ns or 0) for one in counts)
    assert got < 1.2 * sum(step.end_ns - step.begin_ns for step in steps)
    assert len({one.thread for one in ddp.told.of(CoreTime)}) > 1
    assert len(ddp.told.of(Pulsed)) >= 1


def test_the_graph_knows_what_plain_steps_ran_and_keeps_waiting_apart(ddp: Recorded) -> None:
    graph = ddp.graph()
    if not graph.facts.plain_run_ns:
        pytest.skip("this kernel keeps no schedstat")
    assert 0 < graph.facts.plain_run_ns < graph.facts.plain_step_ns
    worked = without_core_waits(graph)
    waited = int(graph.ops.dur_ns[graph.ops.kind == OpKind.CORE_WAIT].sum())
    assert int(worked.ops.dur_ns.sum()) == int(graph.ops.dur_ns.sum()) - waited
    assert replay(worked).step_ns <= replay(graph).step_ns


def test_sharded_training_shows_what_gloo_really_runs(tmp_path: Path) -> None:
    found = record(tmp_path, "fsdp2")
    executed = {(one.op, one.executed) for one in found.issued()}
    assert executed == {("all_gather", "all_gather"), ("all_reduce", "all_reduce")}
    waits = [wait for wait in found.told.of(Wait) if wait.order >= 0]
    assert len(waits) == len(found.issued())
    assert slower_network(found.graph()) > 1.05


def test_tensor_parallel_steps_wait_for_their_functional_collectives(tmp_path: Path) -> None:
    found = record(tmp_path, "tensor")
    assert {one.op for one in found.issued()} == {"all_reduce"}
    assert slower_network(found.graph()) > 1.05


def test_messages_of_a_pipeline_meet_across_ranks(tmp_path: Path) -> None:
    found = record(tmp_path, "pipeline", "--micro-batches", "2")
    assert {(one.op, one.peer) for one in found.issued()} == {("send", 1), ("recv", 1)}
    graph = found.graph()
    sent, got = (graph.ops.instance[graph.ops.kind == k] for k in (OpKind.SEND, OpKind.RECV))
    assert len(sent) == 2 * len([one for one in found.issued() if one.op == "send"])
    assert sorted(sent) == sorted(got)


@pytest.mark.parametrize("parallel", ["ddp", pytest.param("pipeline", marks=pytest.mark.slow)])
def test_a_job_that_leaves_its_group_while_recorded_keeps_its_communication(
    tmp_path: Path, parallel: str
) -> None:
    found = record(tmp_path, parallel, steps=40)
    assert {rank.reason for rank in found.done.ranks} == {"short"}
    assert {rank.detail for rank in found.done.ranks} == {"the process group was destroyed"}
    assert 0 < len(found.steps("recorded")) < 40
    assert len(found.issued()) >= len(found.steps("recorded"))
    graph = found.graph()
    talks = np.isin(graph.ops.kind, (OpKind.COLLECTIVE, OpKind.SEND, OpKind.RECV))
    assert set(np.unique(graph.ops.instance[talks], return_counts=True)[1]) == {2}


@pytest.mark.parametrize(
    ("parallel", "settings"),
    [("ddp", ("--accumulate", "2")), ("pipeline", ("--micro-batches", "2"))],
)
def test_recorded_and_plain_steps_take_turns_alike_on_all_ranks(
    tmp_path: Path, parallel: str, settings: tuple[str, ...]
) -> None:
    found = record(tmp_path, parallel, *settings, turns=True)
    assert {rank.reason for rank in found.done.ranks} == {"complete"}
    _, told = read_run(found.folder)
    shown = [[(step.index, step.mode) for step in each.of(Step)][-6:] for each in told.values()]
    assert shown[0] == shown[1]
    assert "".join(mode.value[0] for _, mode in shown[0]) == "rrprrp"
    graph = found.graph()
    numbers = [index for index, mode in shown[0] if mode is Mode.RECORDED]
    assert np.unique(graph.ops.step).tolist() == numbers
    talks = np.isin(graph.ops.kind, (OpKind.COLLECTIVE, OpKind.SEND, OpKind.RECV))
    assert set(np.unique(graph.ops.instance[talks], return_counts=True)[1]) == {2}
    assert len(set(np.unique(graph.ops.step[talks], return_counts=True)[1])) == 1
    walls = [step.end_ns - step.begin_ns for step in found.steps("recorded")]
    assert replay(graph).step_ns < 1.5 * sum(walls)  # nothing of the plain steps between them
    assert condense(graph).ops.step.max() == 2


def test_a_job_that_ends_amid_turns_keeps_what_was_recorded(tmp_path: Path) -> None:
    found = record(tmp_path, "ddp", "--steps", "48", steps=40, turns=True)
    assert {rank.reason for rank in found.done.ranks} == {"short"}
    recorded = [step.index for step in found.steps("recorded")]
    assert 20 < len(recorded) == recorded[-1] - recorded[0]  # one plain step among them
    graph = found.graph()
    assert np.unique(graph.ops.step).tolist() == recorded
    talks = graph.ops.kind == OpKind.COLLECTIVE
    assert set(np.unique(graph.ops.instance[talks], return_counts=True)[1]) == {2}


def test_of_a_job_whose_worker_was_killed_the_others_are_shown(
    ddp: Recorded, tmp_path: Path
) -> None:
    left = shutil.copytree(ddp.folder, tmp_path / "run")
    (left / sidecar.trace_name(1)).unlink()  # what SIGKILL leaves: no trace, and no last line
    facts = left / sidecar.facts_name(1)
    facts.write_bytes(b"".join(facts.read_bytes().splitlines(keepends=True)[:-1]))
    graph = build_run(left)
    assert graph.ranks == (0,)
    assert replay(graph).step_ns > 0
    (told,) = (note for note in graph.meta["notes"] if "without a trace" in note)
    assert "rank 1 was killed after" in told
    (left / sidecar.trace_name(0)).unlink()
    with pytest.raises(TraceError, match="no rank has a trace"):
        build_run(left)


TWICE = """
import os, paceline, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(steps):
    for _ in range(steps):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
for folder in sys.argv[1:]:
    with paceline.record(folder, steps=3, plain=2):
        train(30)
    train(2)
os._exit(0)  # an orderly end now and then meets an abort in gloo's own threads
"""


def test_a_job_can_be_recorded_more_than_once(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TWICE)
    folders = [tmp_path / name for name in ("a", "b")]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command = [*torchrun, str(script), *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for folder in folders:
        _, told = read_run(folder)
        recorded = [
            [step.index for step in facts.of(Step) if step.mode is Mode.RECORDED]
            for facts in told.values()
        ]
        assert len(recorded) == 2
        assert len(recorded[0]) == 3
        assert recorded[0] == recorded[1]  # the ranks agreed, each time anew


DYING = """
import os, sys, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters())
for step in range(100):
    if step == 12:
        exec(sys.argv[1])
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def test_a_job_of_one_process_is_recorded_and_shown(tmp_path: Path) -> None:
    command = (sys.executable, "-c", DYING, "pass")
    done = launch(RecordRequest(command, tmp_path / "run", steps=3, plain=2), os.environ)
    assert done.exit_code == 0
    graph = build_run(tmp_path / "run")
    assert graph.ranks == (0,)
    assert replay(graph).step_ns > 0


@pytest.mark.parametrize(
    ("death", "reason", "code"),
    [
        ("raise RuntimeError('out of luck')", "exception", 1),
        ("os.kill(os.getpid(), 15)", "signal SIGTERM", 128 + signal.SIGTERM),
        ("os._exit(3)", "killed", 3),
        ("sys.exit(0)", "short", 0),
    ],
)
def test_a_job_that_dies_leaves_what_was_recorded_and_says_where_it_ended(
    tmp_path: Path, death: str, reason: str, code: int
) -> None:
    done = launch(RecordRequest((sys.executable, "-c", DYING, death), tmp_path / "run"), os.environ)
    assert done.exit_code == code
    (rank,) = done.ranks
    assert rank.reason == reason
    # who is killed loses the step that begins the recording, and at most those whose lines are held
    lost = range(1, 1 + MOST) if reason == "killed" else range(1)
    assert 12 - rank.steps in lost
    assert ("out of luck" in rank.detail) == (reason == "exception")
