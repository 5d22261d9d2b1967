"""Traces become one graph: hand-drawn ones op by op, real ones whole."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.errors import TraceError
from paceline.graph import Collective, DepKind, Graph, OpKind, Phase, check
from paceline.replay import Engine, replay
from paceline.replay.communication import meetings
from paceline.trace.build import build
from paceline.trace.readers import read_all
from paceline.trace.readers.source import sources
from paceline.trace.trace import Trace


def traces(*paths: Path) -> list[Trace]:
    return read_all(sources(list(paths)))


def named(graph: Graph, name: str) -> list[int]:
    return [op.id for op in graph if op.name == name]


def links(graph: Graph, op: int) -> dict[str, DepKind]:
    """What an op waits for, by name, and why."""
    first, last = graph.deps.ptr[op : op + 2]
    return {
        graph[int(src)].name: DepKind(kind)
        for src, kind in zip(graph.deps.src[first:last], graph.deps.kind[first:last])
    }


@pytest.fixture
def gpu(document: Callable[..., Any], tmp_path: Path) -> Graph:
    """A launch, a kernel that starts before the launch returns, and a synchronisation."""
    d = document()
    d.step(3, 0, 100)
    d.op("aten::mm", 10, 20)
    d.call("cudaLaunchKernel", 15, 10, correlation=1)
    d.kernel("gemm", 20, 40, correlation=1)
    d.call("cudaDeviceSynchronize", 40, 25, correlation=2)
    d.op("aten::add", 80, 5)
    return check(build(traces(d.save(tmp_path / "rank0.json"))))


def test_a_kernel_waits_for_its_launch_up_to_the_moment_it_began(gpu: Graph) -> None:
    (kernel,) = named(gpu, "gemm")
    assert links(gpu, kernel) == {"cudaLaunchKernel": DepKind.LAUNCH}
    assert gpu[kernel].kind is OpKind.COMPUTE
    launch = named(gpu, "cudaLaunchKernel")
    assert [gpu[op].dur_ns for op in launch] == [5000, 5000]  # cut where the kernel began


def test_a_synchronisation_drains_the_stream_and_keeps_only_its_own_time(gpu: Graph) -> None:
    waited, own = named(gpu, "cudaDeviceSynchronize")
    assert gpu.drains.op.tolist() == [waited]
    assert gpu[waited].kind is OpKind.WAIT
    assert (gpu[waited].dur_ns, gpu[own].dur_ns) == (0, 5000)


def test_time_between_ops_is_kept_so_that_the_replay_equals_the_recording(gpu: Graph) -> None:
    assert replay(gpu).step_ns == 100_000
    assert replay(gpu, engine=Engine.REFERENCE).step_ns == 100_000
    assert len(named(gpu, "between ops")) >= 1


def test_host_ops_compute_only_where_there_is_no_device(
    document: Callable[..., Any], tmp_path: Path, gpu: Graph
) -> None:
    d = document().op("aten::mm", 0, 20)
    cpu = build(traces(d.save(tmp_path / "cpu.json")))
    assert cpu[named(cpu, "aten::mm")[0]].kind is OpKind.COMPUTE
    assert gpu[named(gpu, "aten::mm")[0]].kind is OpKind.HOST


def test_the_way_into_a_tensors_own_class_computes_nothing(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    d = document().op("PythonSubclass", 0, 20).op("aten::mul_", 5, 10)
    graph = build(traces(d.save(tmp_path / "cpu.json")))
    assert graph[named(graph, "PythonSubclass")[0]].kind is OpKind.HOST
    assert graph[named(graph, "aten::mul_")[0]].kind is OpKind.COMPUTE


def test_what_fsdp_does_to_gather_its_weights_is_communication(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    d = document().op("aten::mm", 0, 20).event("user_annotation", "FSDP::all_gather (0)", 30, 40)
    d.op("aten::copy_", 40, 10)
    d.event("user_annotation", "FSDP::all_gather_copy_out (0)", 80, 40).op("aten::cat", 90, 10)
    graph = build(traces(d.save(tmp_path / "fsdp.json")))
    phases = {graph[op].name: graph[op].phase for op in range(len(graph))}
    assert phases["aten::copy_"] is Phase.COMMUNICATION
    assert phases["aten::mm"] is Phase.FORWARD
    assert phases["aten::cat"] is Phase.FORWARD


def test_a_stream_waits_for_another_ones_event(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    d = document()
    d.call("cudaLaunchKernel", 0, 2, correlation=1).kernel("first", 3, 30, 1, stream=7)
    d.call("cudaEventRecord", 5, 1, correlation=2)
    d.call("cudaStreamWaitEvent", 8, 1, correlation=3)
    d.event(
        "cuda_sync",
        "Stream Wait Event",
        8,
        1,
        pid=0,
        tid=20,
        cuda_sync_kind="Stream Wait Event",
        stream=20,
        device=0,
        wait_on_stream=7,
        wait_on_cuda_event_record_corr_id=2,
        correlation=3,
    )
    d.call("cudaLaunchKernel", 10, 2, correlation=4).kernel("second", 40, 5, 4, stream=20)
    graph = check(build(traces(d.save(tmp_path / "rank0.json"))))
    (second,) = named(graph, "second")
    (latency,) = [op for op in named(graph, "latency") if op == second - 1]
    assert links(graph, latency)["first"] is DepKind.EVENT
    assert graph[latency].dur_ns == 7000  # from the end of what it waited for to its start


def pair(document: Callable[..., Any], folder: Path, late: tuple[int, int]) -> list[Trace]:
    """Two ranks in one all-reduce, which each joins at its own time; it ends at 100 on both."""
    paths = []
    for rank, start in enumerate(late):
        d = document(rank=rank, world_size=2).step(1, 0, 120)
        d.op("aten::mm", 0, 5).call("cudaLaunchKernel", 5, 3, correlation=1)
        d.kernel(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
            start,
            100 - start,
            1,
            **{
                "Collective name": "allreduce",
                "In msg nelems": 1000,
                "Out msg nelems": 1000,
                "dtype": "Float",
                "Process Group Name": "dp",
                "Process Group Ranks": "[0, 1]",
            },
        )
        paths.append(d.save(folder / f"worker{rank}.json"))
    return traces(*paths)


def test_a_collective_is_one_instance_whose_transfer_begins_with_its_last_member(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    graph = check(build(pair(document, tmp_path, (20, 70))))
    (met,) = meetings(replay(graph))
    assert (met.collective, met.group, met.ranks) == ("all_reduce", "dp", (0, 1))
    assert (met.size_bytes, met.skew_ns, met.transfer_ns) == (4000, 50_000, 30_000)
    assert (met.waiting_ns, met.late_rank) == (50_000, 1)
    assert replay(graph).step_ns == 120_000


def untold(document: Callable[..., Any], folder: Path, kernel: str) -> list[Trace]:
    """Two ranks that run one communication kernel each, without metadata; their times overlap."""
    paths = []
    for rank, start in enumerate((20, 40)):
        d = document(rank=rank, world_size=2).step(1, 0, 120)
        d.call("cudaLaunchKernel", 5, 3, correlation=1).kernel(kernel, start, 100 - start, 1)
        paths.append(d.save(folder / f"worker{rank}.json"))
    return traces(*paths)


def test_kernels_that_send_and_receive_without_naming_a_peer_are_joined_to_nothing(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    kernel = "ncclDevKernel_SendRecv(x)"
    graph = check(build(untold(document, tmp_path, kernel)))
    found = named(graph, kernel)
    assert [graph[op].kind for op in found] == [OpKind.TRANSFER] * 2
    assert graph.ops.instance[found].tolist() == [-1, -1]
    assert [graph[op].dur_ns for op in found] == [80_000, 60_000]
    assert "2 sends and receives name no peer" in graph.meta["notes"][-1]


def test_collectives_joined_by_order_alone_are_noted_as_inferred(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
    graph = check(build(untold(document, tmp_path, kernel)))
    assert len(set(graph.ops.instance[named(graph, kernel)].tolist())) == 1
    assert "1 collectives and messages are joined by their order" in graph.meta["notes"][-1]


def test_the_same_job_in_another_order_of_files_is_the_same_graph(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    both = pair(document, tmp_path, (20, 70))
    one, other = build(both), build(both[::-1])
    assert one.ops.dur_ns.tolist() == other.ops.dur_ns.tolist()
    assert one.names == other.names


def test_backward_ops_on_another_thread_are_woken_and_waited_for(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    d = document()
    d.op("aten::mm", 0, 10)
    backward = {"tid": 2, "Fwd thread id": 1, "Sequence number": 4}
    d.event("cpu_op", "MmBackward0", 20, 30, **backward)
    d.op("aten::add", 60, 10)
    graph = check(build(traces(d.save(tmp_path / "rank0.json"))))
    (woken,) = named(graph, "MmBackward0")
    assert graph[woken].phase is Phase.BACKWARD
    assert set(links(graph, woken).values()) == {DepKind.AUTOGRAD}
    assert graph.deps.inferred.all()
    longer = np.where(np.arange(len(graph)) == woken, 130_000, graph.ops.dur_ns)
    slower = replay(replace(graph, ops=replace(graph.ops, dur_ns=longer)))
    assert (replay(graph).step_ns, slower.step_ns) == (70_000, 170_000)


def test_the_main_thread_is_that_of_the_optimizer_however_much_others_run(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    """Compiled backward ops carry no mark of autograd; their thread runs more than the loop's."""
    d = document().op("aten::mm", 0, 10).event("user_annotation", "Optimizer.step#SGD", 80, 10)
    for at in (20, 35, 50):
        d.event("cpu_op", "CompiledFunctionBackward", at, 10, tid=2)
    graph = check(build(traces(d.save(tmp_path / "rank0.json"))))
    (update,) = named(graph, "Optimizer.step#SGD")
    assert graph.lanes.name[graph[update].lane] == "main thread"


def test_steps_without_marks_are_taken_to_end_with_the_optimizer(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    d = document()
    for begin in (0, 100, 200):
        d.op("aten::mm", begin, 10)
        d.event("cpu_op", "MmBackward0", begin + 20, 10, **{"Fwd thread id": 1})
        d.event("user_annotation", "Optimizer.step#SGD.step", begin + 50, 20)
    graph = build(traces(d.save(tmp_path / "rank0.json")))
    assert sorted(set(graph.ops.step.tolist())) == [1, 2]
    assert "optimizer" in graph.meta["notes"][0]
    assert replay(graph).step_ns == 200_000


ALONE = (
    "df_index_resolver.json.gz",
    "nccl-metadata/nccl_data.json.gz",
    "h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "hta-critical-path/alexnet.json.gz",
    "hta-critical-path/cuda_event_sync.json.gz",
    "hta-critical-path/cuda_event_sync_multi_stream.json.gz",
    "hta-critical-path/simple_add.json.gz",
)


@pytest.mark.parametrize("name", ALONE)
def test_every_real_trace_imports_and_replays_as_recorded(real_traces: Path, name: str) -> None:
    (trace,) = traces(real_traces / name)
    graph = check(build([trace]))
    steps = trace.steps
    if len(steps):
        recorded = int(steps.end_ns.max() - steps.start_ns.min())
    else:
        recorded = int(trace.events.end_ns.max() - trace.events.start_ns.min())
    assert replay(graph).step_ns == pytest.approx(recorded, rel=3e-3)


def test_the_eight_ranks_of_dlrm_join_their_eight_collectives(real_traces: Path) -> None:
    eight = traces(real_traces / "dlrm-8xV100")
    graph = check(build(eight))
    found = meetings(replay(graph))
    assert len(found) == 8
    assert all(met.ranks == tuple(range(8)) for met in found)
    kinds = [met.collective for met in found]
    assert kinds == ["all_to_all"] * 4 + ["all_reduce", "all_to_all"] + ["all_reduce"] * 2
    ends = np.stack([t.events.end_ns[t.collectives.event] for t in eight])
    assert np.ptp(ends, axis=0).max() <= 7_000
    replayed = replay(graph).end_ns
    of = np.stack([replayed[graph.ops.instance == met.instance] for met in found])
    assert np.ptp(of, axis=1).max() <= 10_000


def test_the_critical_path_of_dlrm_crosses_ranks(real_traces: Path) -> None:
    timeline = replay(build(traces(real_traces / "dlrm-8xV100")))
    assert len(timeline.critical_path.by_rank) > 1
    assert max(met.skew_ns for met in meetings(timeline)) == pytest.approx(7.6e6, rel=0.01)


def test_hta_event_synchronisation_becomes_links_and_drains(real_traces: Path) -> None:
    (trace,) = traces(real_traces / "hta-critical-path" / "cuda_event_sync_multi_stream.json.gz")
    graph = build([trace])
    assert (graph.deps.kind == DepKind.EVENT).any()
    assert not graph.deps.inferred[graph.deps.kind == DepKind.EVENT].any()
    assert len(set(graph.drains.lane.tolist())) == 3  # the device is drained: all its streams


def test_metadata_of_collectives_is_kept(real_traces: Path) -> None:
    (trace,) = traces(real_traces / "nccl-metadata" / "nccl_data.json.gz")
    graph = build([trace])
    moves = graph.ops.kind == OpKind.COLLECTIVE
    assert set(graph.ops.collective[moves].tolist()) == {
        Collective.ALL_REDUCE,
        Collective.BROADCAST,
    }
    assert 4 * 6637568 in graph.ops.size_bytes[moves].tolist()
    assert any("[1] were not imported" in note for note in graph.meta["notes"])


def test_ranks_without_a_step_in_common_are_refused(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    for rank in range(2):
        d = document(rank=rank, world_size=2).step(rank, 0, 10).op("aten::mm", 0, 5)
        d.save(tmp_path / f"rank{rank}.json")
    with pytest.raises(TraceError, match=r"no step was recorded on every rank \(rank 0: \[0\]"):
        build(traces(tmp_path))
