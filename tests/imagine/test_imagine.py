"""Imagined ranks become one graph; scripts run without data say what a recording says."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from paceline.cli import main
from paceline.graph import NONE, UNPRICED, Collective, DType, Graph, MemoryCategory, OpKind, Phase
from paceline.graph.work import Elements, Recorded, pointwise
from paceline.graph.work.columns import recorded_columns
from paceline.imagine.imagine import ScriptJob, imagine
from paceline.imagine.imagined import Imagined, ImaginedOp, ImagineError, Members, MemoryChange
from paceline.imagine.imagined_graph import graph_of
from paceline.record.launch import Recording
from paceline.replay import replay
from paceline.trace.runs import build_run

EXAMPLES = Path(__file__).parents[2] / "examples"
TRAIN = str(EXAMPLES / "train.py")


def work(name: str, phase: Phase = Phase.FORWARD, after: list[int] | None = None) -> ImaginedOp:
    return ImaginedOp(name, OpKind.COMPUTE, phase, 8, 2, DType.FLOAT32, 0, after=after or [])


def all_reduce(after: list[int]) -> ImaginedOp:
    row = ImaginedOp("allreduce_", OpKind.COLLECTIVE, Phase.COMMUNICATION, 40, 0, DType.FLOAT32, 0)
    row.collective, row.group, row.after = Collective.ALL_REDUCE, "0", after
    return row


def message(kind: OpKind, peer: int) -> ImaginedOp:
    row = ImaginedOp("m", kind, Phase.COMMUNICATION, 16, 0, DType.FLOAT32, 0, group="0", peer=peer)
    row.collective = Collective.POINT_TO_POINT
    return row


def rank(
    number: int, rows: list[ImaginedOp], world: int = 2, memory: list[MemoryChange] | None = None
) -> Imagined:
    members = [Members("0", list(range(world)), "default")]
    return Imagined(number, world, 1, rows, memory or [], members)


def step() -> list[ImaginedOp]:
    """forward, backward -> all-reduce, which runs beside more backward; update waits for it."""
    return [
        work("f"),
        work("b1", Phase.BACKWARD),
        all_reduce(after=[1]),
        work("b2", Phase.BACKWARD),
        work("u", Phase.UPDATE, after=[2]),
    ]


def priced(graph: Graph, dur_ns: list[int]) -> np.ndarray:
    return replay(graph, prices=np.array(dur_ns, np.int64)).end_ns


def test_communication_runs_beside_work_until_somebody_waits_for_it() -> None:
    graph = graph_of([rank(0, step())])
    ends = priced(graph, [10, 10, 100, 10, 1])
    assert ends.tolist() == [10, 20, 120, 30, 121]


def test_all_members_of_a_collective_meet_when_all_are_imagined() -> None:
    graph = graph_of([rank(0, step()), rank(1, step())])
    late = priced(graph, [10, 10, 100, 10, 1, 500, 10, 100, 10, 1])
    assert late[4] == late[9] == 500 + 10 + 100 + 1
    assert len(graph.groups) == 1


def test_a_lone_rank_stands_for_all_and_the_graph_says_so() -> None:
    graph = graph_of([rank(0, step(), world=4096)])
    assert graph.world_size == 4096
    assert graph.ops.instance.tolist() == [NONE] * 5
    assert graph.groups[0].ranks == tuple(range(4096))
    assert any("stands for all 4096" in note for note in graph.meta["notes"])


def test_operators_that_no_rule_knows_are_named_with_their_share_of_the_bytes() -> None:
    sums = Recorded("aten::add", pointwise(Elements(1, 1), DType.FLOAT32))
    rows = [work("add"), work("mystery"), work("riddle"), work("mystery")]
    rows[0].work, rows[0].size_bytes, rows[2].size_bytes = 0, 56, 8
    one = rank(0, rows, world=1)
    one.works = recorded_columns([sums])
    (note,) = graph_of([one]).meta["notes"]
    assert "mystery (2 of 4 ops, 20.0% of the bytes), riddle (1 of 4 ops, 10.0%" in note
    assert "add" not in note


def test_nothing_is_priced_before_a_cluster_is_known() -> None:
    graph = graph_of([rank(0, step())])
    assert (graph.ops.dur_ns == UNPRICED).all()
    assert graph.ops.flops.tolist() == [2, 2, 0, 2, 2]


def test_a_message_is_one_instance_with_a_sender_and_a_receiver() -> None:
    graph = graph_of(
        [rank(0, [work("f"), message(OpKind.SEND, 1)]), rank(1, [message(OpKind.RECV, 0)])]
    )
    assert graph.ops.instance.tolist() == [NONE, 0, 0]
    assert graph.groups[int(graph.ops.group[1])].ranks == (0, 1)


def test_a_message_with_one_end_is_refused_by_name() -> None:
    with pytest.raises(ImagineError, match="from rank 0 to rank 1 has only one end"):
        graph_of([rank(0, [message(OpKind.SEND, 1)]), rank(1, [work("f")])])


def test_memory_rises_at_an_ops_start_and_falls_at_its_end() -> None:
    held = [
        MemoryChange(0, 100, MemoryCategory.ACTIVATIONS),
        MemoryChange(1, -100, MemoryCategory.ACTIVATIONS),
    ]
    graph = graph_of([rank(0, step(), memory=held)])
    assert graph.memory.delta_bytes.tolist() == [100, -100]
    assert graph.memory.at_end.tolist() == [False, True]


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (ScriptJob((), 2), "nothing to imagine"),
        (ScriptJob(("torchrun", "train.py"), 2), "--world-size"),
        (ScriptJob(("nowhere.py",), 2), "nowhere.py is no file"),
        (ScriptJob((TRAIN,), 0), "give 1 or more"),
        (ScriptJob((TRAIN,), 2, ranks=(2,)), "not in a world of 2"),
    ],
)
def test_a_job_that_cannot_be_imagined_says_what_to_give(job: ScriptJob, said: str) -> None:
    with pytest.raises(ImagineError, match=said):
        imagine(job)


SCRIPTS = {
    "values.py": ("x[x > 0]", "values.py:9: aten.nonzero|values.py:9: .*index"),
    "raises.py": ("raise ValueError('no data here')", "raises.py:9: ValueError: no data here"),
    "ends.py": ("sys.exit(3)", "exit code 3"),
    "short.py": ("break", "made 0 optimizer steps; 2 are needed"),
}
BODY = """import sys
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(9):
    x = torch.randn(8, 4)
    model(x).sum().backward()
    {line}
    optimizer.step()
"""


@pytest.mark.live
@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_script_that_needs_data_fails_with_its_line(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    line, said = SCRIPTS[name]
    script = tmp_path / name
    script.write_text(BODY.format(line=line))
    with pytest.raises(ImagineError, match=said):
        imagine(ScriptJob((str(script),), 1))


def issued(graph: Graph, step: int) -> list[tuple[int, int, int]]:
    """Collective, bytes and element type of each call of rank 0 in a step."""
    ops = graph.ops
    rows = np.flatnonzero((ops.rank == 0) & (ops.step == step) & (ops.kind == OpKind.COLLECTIVE))
    table = np.stack([ops.collective[rows], ops.size_bytes[rows], ops.dtype[rows]], axis=1)
    return [tuple(row) for row in table.tolist()]


@pytest.mark.live
@pytest.mark.needs("torch")
def test_an_imagined_step_communicates_what_a_recorded_one_does(ddp_recording: Recording) -> None:
    script = (TRAIN, "--model", "small", "--bucket-mb", "0.3", "--steps", "34")
    recorded = build_run(ddp_recording.folder)
    graph = imagine(ScriptJob(script, 2, ranks=(0, 1)))
    calls = issued(graph, 0)
    assert len(calls) > 1
    assert calls == issued(recorded, int(recorded.ops.step.max()))
    batch, width, classes = 32, 256, 10
    forward = 2 * batch * (4 * width * width + width * classes)
    backward = 2 * forward - 2 * batch * width * width  # nobody needs the input's gradient
    mine = graph.ops.rank == 0
    assert graph.ops.flops[mine].sum() == forward + backward
    gradients = {graph.text(i) for i in graph.ops.tensor[mine].tolist()} - {""}
    assert gradients == {recorded.text(i) for i in recorded.ops.tensor.tolist()} - {""}


@pytest.mark.live
def test_a_sharded_script_at_4096_workers_is_priced_and_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    cluster = tmp_path / "c.yaml"
    cluster.write_text(
        "name: big\nhosts:\n  - {name: n, count: 512, device: h100, devices: 8, nics: 8, "
        "fabric: nvlink-4}\nlink: {preset: ethernet-100g, latency: 5us}\n"
    )
    run = str(tmp_path / "run")
    asked = ["imagine", "--json", "-o", run, "--world-size", "4096", "--cluster", str(cluster)]
    assert main([*asked, "--", TRAIN, "--model", "small", "--parallel", "fsdp2"]) == 0
    told = json.loads(capsys.readouterr().out)
    gathered, reduced = told["communication"]["all_gather"], told["communication"]["reduce_scatter"]
    assert (
        gathered["calls"] == 2 * reduced["calls"] - 1 or gathered["calls"] == 2 * reduced["calls"]
    )
    assert told["world_size"] == 4096
    assert main(["show", "--json", run]) == 0
    assert json.loads(capsys.readouterr().out)["step_ns"] > 0


@pytest.mark.live
def test_the_example_prices_three_worlds() -> None:
    pytest.importorskip("torch")
    example = [sys.executable, str(EXAMPLES / "without_recording.py"), TRAIN, "--model", "small"]
    done = subprocess.run(example, capture_output=True, text=True, check=True)
    workers = [int(line.split()[0]) for line in done.stdout.splitlines()]
    assert workers == [8, 64, 512]
    assert all(float(line.split()[2]) > 0 for line in done.stdout.splitlines())


PIPELINE = """import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
part = torch.nn.Linear(64, 64)
x = torch.randn(4, 64, requires_grad=rank > 0)
stage = PipelineStage(
    part, rank, world, torch.device("cpu"), input_args=(x,), output_args=(part(x),)
)
schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss)
optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
while True:
    x = torch.randn(16, 64)
    schedule.step(*([x] if rank == 0 else []), **({"target": x} if rank == world - 1 else {}))
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.live
def test_stages_of_a_pipeline_are_imagined_with_their_partners(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "pipe.py"
    script.write_text(PIPELINE)
    graph = imagine(ScriptJob((str(script),), 2))
    assert graph.ranks == (0, 1)
    sends = graph.ops.kind == OpKind.SEND
    assert sends.sum() == (graph.ops.kind == OpKind.RECV).sum() == 2 * 4
    assert set(graph.ops.size_bytes[sends].tolist()) == {4 * 64 * 4}
    work = graph.ops.kind == OpKind.COMPUTE
    timeline = replay(graph, prices=np.where(work, 100, 10).astype(np.int64))
    alone = max(int((work & (graph.ops.rank == rank)).sum()) for rank in graph.ranks) * 100
    assert timeline.end_ns.max() > alone
    with pytest.raises(ImagineError, match="--ranks leaves out"):
        imagine(ScriptJob((str(script),), 2, ranks=(0,)))
