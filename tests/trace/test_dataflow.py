"""Links that say what is read of what: gradients, batches, forward results, the step before."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.graph import DepKind, Graph, OpKind, check
from paceline.record.sidecar import Collective, Cost, Gradient, Parameter, RecordedBucket, Sidecar
from paceline.replay import replay
from paceline.trace.build import build
from paceline.trace.gradients import ACCUMULATION
from paceline.trace.readers import read_all
from paceline.trace.readers.source import sources
from paceline.trace.rules import dataflow
from paceline.trace.trace import Trace
from paceline.trace.view import RankView

Link = tuple[str, str, bool]
NODE = "autograd::engine::evaluate_function: "


def linked(graph: Graph, kind: DepKind) -> set[Link]:
    """(from, to, inferred) by name, of all links of a kind; work stands for its latency too."""
    op = np.repeat(np.arange(len(graph)), np.diff(graph.deps.ptr))
    rows = np.flatnonzero(graph.deps.kind == kind).tolist()
    return {
        (
            graph[int(graph.deps.src[i])].name,
            target(graph, int(op[i])),
            bool(graph.deps.inferred[i]),
        )
        for i in rows
    }


def target(graph: Graph, op: int) -> str:
    """Name of an op, or of the work of which it is the latency."""
    if graph[op].name != "latency":
        return graph[op].name
    return next(o.name for o in graph if o.id > op and o.lane == graph[op].lane)


def one(graph: Graph, name: str) -> int:
    (found,) = [op.id for op in graph if op.name == name]
    return found


def slowed(graph: Graph, op: int, by_ns: int) -> Graph:
    longer = graph.ops.dur_ns.copy()
    longer[op] += by_ns
    return replace(graph, ops=replace(graph.ops, dur_ns=longer))


def read(path: Path) -> Trace:
    (trace,) = read_all(sources([path]))
    return trace


ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"


def job(document: Callable[..., Any]) -> Any:
    """Two backward nodes, their gradients reduced one by one on stream 20, and an update."""
    d = document().step(1, 0, 200)
    for number, at in enumerate((10, 60)):
        d.op(f"{NODE}Node{number}", at, 20)
        d.call("cudaLaunchKernel", at + 5, 5, correlation=number + 1)
        d.kernel(f"grad{number}", at + 10, 15, number + 1)
        d.op(ACCUMULATION, at + 22, 20)
        d.call("cudaLaunchKernel", at + 30, 5, correlation=number + 11)
        d.kernel(f"{ALL_REDUCE}{number}", at + 35, 20, number + 11, stream=20)
    d.event("user_annotation", "Optimizer.step#SGD.step", 130, 30)
    d.call("cudaLaunchKernel", 135, 5, correlation=21).kernel("sgd", 140, 10, 21)
    return d


@pytest.fixture
def reduced(document: Callable[..., Any], tmp_path: Path) -> Graph:
    return check(build([read(job(document).save(tmp_path / "rank0.json"))]))


def test_each_kernel_that_makes_a_gradient_precedes_its_collective_and_that_the_update(
    reduced: Graph,
) -> None:
    assert linked(reduced, DepKind.GRADIENT) == {
        ("grad0", f"{ALL_REDUCE}0", True),
        ("grad1", f"{ALL_REDUCE}1", True),
        (f"{ALL_REDUCE}0", "sgd", True),
        (f"{ALL_REDUCE}1", "sgd", True),
    }


def test_links_of_gradients_leave_the_unchanged_replay_as_recorded(reduced: Graph) -> None:
    timeline = replay(reduced)
    assert timeline.step_ns == 200_000
    starts = [int(timeline.start_ns[one(reduced, f"{ALL_REDUCE}{n}")]) for n in (0, 1)]
    assert starts == [45_000, 95_000]


def test_a_slower_backward_kernel_delays_its_collective_and_the_update(reduced: Graph) -> None:
    slower = replay(slowed(reduced, one(reduced, "grad1"), by_ns=100_000))
    begins = [int(slower.start_ns[one(reduced, n)]) for n in (f"{ALL_REDUCE}0", f"{ALL_REDUCE}1")]
    ended = 70_000 + 115_000
    assert begins[0] == 45_000
    assert begins[1] >= ended  # on a stream of its own, and no event tells of it
    assert slower.start_ns[one(reduced, "sgd")] >= begins[1] + 20_000


def test_a_collective_outside_of_the_backward_pass_carries_no_gradient(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    d = document().op(f"{NODE}Node", 0, 10).op(ACCUMULATION, 12, 5)
    d.call("cudaLaunchKernel", 30, 5, correlation=1).kernel(ALL_REDUCE, 40, 5, 1)
    graph = build([read(d.save(tmp_path / "rank0.json"))])
    assert linked(graph, DepKind.GRADIENT) == set()


def test_a_collective_that_ran_before_a_kernel_does_not_wait_for_it(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    d = job(document)
    late = next(e for e in d.events if e["name"] == "grad0")
    late["dur"] = 40  # ends after the collective began: it cannot have made what was sent
    found = linked(build([read(d.save(tmp_path / "rank0.json"))]), DepKind.GRADIENT)
    assert ("grad0", f"{ALL_REDUCE}0", True) not in found
    assert ("grad1", f"{ALL_REDUCE}1", True) in found


def test_told_buckets_say_which_gradient_goes_where(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    """Both gradients of one bucket, though the trace alone would part them by collectives."""
    trace = read(job(document).save(tmp_path / "rank0.json"))
    order = np.arange(len(trace.collectives), dtype=np.int64)
    trace = replace(trace, collectives=replace(trace.collectives, order=order))
    told = Sidecar(
        records=[
            *(Parameter(index=i, name=f"p{i}") for i in (0, 1)),
            RecordedBucket(index=0, parameters=[1], size_bytes=4),
            RecordedBucket(index=1, parameters=[0, 1], size_bytes=8),
            *(Gradient(parameter=i, step=0, ready_ns=i + 1) for i in (0, 1)),
            *(
                Collective(order=i, group="0", sequence=i, op="all_reduce", bucket=i)
                for i in (0, 1)
            ),
        ],
        truncated=False,
    )
    found = linked(build([trace], {0: told}), DepKind.GRADIENT)
    assert {link for link in found if link[1] != "sgd"} == {
        ("grad0", f"{ALL_REDUCE}1", False),
        ("grad1", f"{ALL_REDUCE}1", False),
    }


def test_an_arrow_of_the_profiler_becomes_a_link_from_a_forward_op_to_its_backward(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    d = document().op("aten::mm", 0, 10).op("aten::add", 12, 5)
    d.op("MmBackward0", 30, 10, **{"Fwd thread id": 1})
    for mark, at in (("s", 0), ("f", 30)):
        arrow = {"ph": mark, "cat": "fwdbwd", "name": "fwdbwd", "id": 7, "pid": 1, "tid": 1}
        d.events.append({**arrow, "ts": at})
    graph = check(build([read(d.save(tmp_path / "rank0.json"))]))
    assert linked(graph, DepKind.AUTOGRAD) == {("aten::mm", "MmBackward0", False)}
    assert replay(graph).step_ns == 40_000


def test_a_batch_precedes_the_first_operator_after_it(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    d = document().event("user_annotation", "enumerate(DataLoader)#_Next", 0, 20)
    d.op("aten::to", 25, 5).op("aten::mm", 32, 8)
    graph = check(build([read(d.save(tmp_path / "rank0.json"))]))
    assert linked(graph, DepKind.DATA) == {("enumerate(DataLoader)#_Next", "aten::to", True)}
    assert graph[one(graph, "enumerate(DataLoader)#_Next")].kind is OpKind.DATA


def test_a_step_precedes_the_next_on_the_thread_and_on_the_device(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    d = document().step(1, 0, 50).step(2, 50, 50)
    for number, at in enumerate((0, 50)):
        d.op("aten::mm", at, 30).call("cudaLaunchKernel", at + 5, 5, correlation=number + 1)
        d.kernel(f"gemm{number}", at + 12, 20, number + 1)
    graph = check(build([read(d.save(tmp_path / "rank0.json"))]))
    assert linked(graph, DepKind.STEP) == {
        ("between ops", "aten::mm", False),
        ("gemm0", "gemm1", True),
    }
    assert replay(graph).step_ns == 100_000


def test_no_link_of_the_dataflow_shifts_the_replay_of_a_real_trace(real_traces: Path) -> None:
    (trace,) = read_all(sources([real_traces / "nccl-metadata/nccl_data.json.gz"]))
    graph = check(build([trace]))
    ours = np.isin(graph.deps.kind, (DepKind.GRADIENT, DepKind.STEP))
    assert ours.sum() > 500
    assert len(dataflow.find(RankView(trace)).links) >= len(trace.flows) > 0
    timeline = replay(graph)
    recorded = int(trace.steps.end_ns[-1] - trace.steps.start_ns[0])
    assert timeline.step_ns == pytest.approx(recorded, rel=0.001)


@pytest.mark.parametrize(
    ("refault_ns", "mm", "add", "step"),
    [
        (20_000, 45_000, 15_000, 120_000),
        (-20_000, 15_000, 5_000, 80_000),
        (-70_000, 0, 0, 60_000),  # no more than the operators took
    ],
)
def test_faults_that_recording_spared_or_added_are_the_operators(
    document: Callable[..., Any], tmp_path: Path, refault_ns: int, mm: int, add: int, step: int
) -> None:
    """mm 0-30 and add 50-60 of one step of 100 us; faults are shared 3 to 1."""
    d = document().step(1, 0, 100).op("aten::mm", 0, 30).op("aten::add", 50, 10)
    trace = read(d.save(tmp_path / "rank0.json"))
    told = Sidecar(records=[Cost(op_ns=0.0, refault_ns=refault_ns)], truncated=False)
    graph = build([trace], {0: told})
    assert graph.ops.dur_ns[one(graph, "aten::mm")] == mm
    assert graph.ops.dur_ns[one(graph, "aten::add")] == add
    assert replay(graph).step_ns == step
