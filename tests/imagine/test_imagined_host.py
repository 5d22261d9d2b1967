"""On a GPU an imagined rank's host launches every operator, one after another."""

from dataclasses import replace

import numpy as np
import pytest

from paceline.cluster import Cluster, parse
from paceline.cost import Basis, Efficiency, Rates, price
from paceline.cost.achieved import achieved_memory
from paceline.cost.compute import TYPICAL
from paceline.cost.forecast import shipped
from paceline.graph import (
    UNPRICED,
    Collective,
    DepKind,
    DeviceKind,
    DType,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Phase,
)
from paceline.graph.links import Links
from paceline.imagine.imagined import Imagined, ImaginedOp, Members
from paceline.imagine.imagined_graph import graph_of
from paceline.replay import replay

LAUNCH_NS = TYPICAL[DeviceKind.GPU].launch_ns


def work(size_bytes: int = 1000, **told: int) -> ImaginedOp:
    return ImaginedOp(
        "sort", OpKind.COMPUTE, Phase.FORWARD, size_bytes, 0, DType.FLOAT32, 0, **told
    )


def all_reduce(after: list[int]) -> ImaginedOp:
    row = ImaginedOp("allreduce_", OpKind.COLLECTIVE, Phase.COMMUNICATION, 40, 0, DType.FLOAT32, 0)
    row.collective, row.group, row.after = Collective.ALL_REDUCE, "0", after
    return row


def drawn(*rows: ImaginedOp, gpu: bool = True) -> Graph:
    members = [Members("0", [0, 1], "default")]
    return graph_of([Imagined(0, 2, 1, list(rows), [], members, gpu=gpu)])


def on(device: str = "h100") -> Cluster:
    return parse(f"hosts: {{count: 2, device: {device}}}\nlink: ethernet-1g\n")


def hosts(graph: Graph) -> np.ndarray:
    return np.asarray(graph.ops.kind == OpKind.HOST)


def test_each_operator_waits_for_its_call_and_calls_follow_one_another() -> None:
    graph = drawn(*[work()] * 3)
    lanes = graph.lanes.kind[graph.ops.lane]
    assert (lanes[hosts(graph)] == LaneKind.THREAD).all()
    assert (lanes[~hosts(graph)] == LaneKind.STREAM).all()
    links = Links.of(graph)
    launches = links.kind == DepKind.LAUNCH
    pairs = zip(links.src[launches].tolist(), links.op[launches].tolist())
    assert sorted(pairs) == [(0, 1), (2, 3), (4, 5)]


def test_many_small_operators_take_as_long_as_their_host() -> None:
    graph = price(drawn(*[work()] * 100), on())
    host_ns = int(graph.ops.dur_ns[hosts(graph)].sum())
    last_ns = int(graph.ops.dur_ns[~hosts(graph)][-1])
    assert host_ns == 100 * LAUNCH_NS / 2
    assert replay(graph).step_ns == host_ns + last_ns


def test_large_operators_hide_their_host() -> None:
    graph = price(drawn(*[work(10**9)] * 10), on())
    device_ns = int(graph.ops.dur_ns[~hosts(graph)].sum())
    assert replay(graph).step_ns == device_ns + graph.ops.dur_ns[0]


def test_views_before_an_operator_are_calls_too() -> None:
    graph = price(drawn(work(), work(calls=3)), on())
    assert graph.ops.dur_ns[hosts(graph)].tolist() == [LAUNCH_NS / 2, 3 * LAUNCH_NS / 2]


def test_a_host_that_reads_a_value_waits_for_the_device() -> None:
    rows = [work(10**9), work(10**9), work(read_after=1)]
    read, ran_ahead = (price(drawn(*rows[:2], last), on()) for last in (rows[2], work()))
    ends = [replay(graph).end_ns for graph in (read, ran_ahead)]
    assert ends[0][4] == ends[0][3] + read.ops.dur_ns[4], "the call comes after what it reads"
    assert ends[1][4] < ends[1][1], "else the host is far ahead"


def test_a_collective_is_launched_by_the_host_and_waits_for_its_work() -> None:
    graph = drawn(work(), all_reduce(after=[0]), work())
    links = Links.of(graph)
    assert set(links.src[links.op == 3].tolist()) == {1, 2}


def test_a_host_that_was_measured_takes_what_it_took_beside_its_device_alone() -> None:
    mine = Rates(constants=replace(shipped(), call_ns={"h100": 4_000.0}))
    here, there = (price(drawn(work(), work(calls=3)), on(name), mine) for name in ("h100", "h200"))
    rows = hosts(here)
    assert here.ops.dur_ns[rows].tolist() == [4_000, 12_000]
    assert (here.ops.basis[rows] == Basis.MEASURED).all()
    assert there.ops.dur_ns[rows].tolist() == [LAUNCH_NS / 2, 3 * LAUNCH_NS / 2]


def test_off_a_gpu_threads_do_their_work_themselves() -> None:
    graph = drawn(work(), work(), gpu=False)
    assert not hosts(graph).any()


def test_an_operator_that_no_rule_knows_takes_the_devices_least_time_and_its_bytes() -> None:
    cluster = on()
    found = price(drawn(work(8), work(10**9)), cluster)
    least = achieved_memory(cluster.hosts[0].device).least_ns
    took = found.ops.dur_ns[~hosts(found)]
    assert took[0] == pytest.approx(least, rel=0.01)
    assert took[1] > 10**9 / cluster.hosts[0].device.memory_bytes_per_s * 1e9
    assert (found.ops.basis == Basis.DATASHEET).all()


def test_a_measured_device_keeps_its_own_ends_of_kernels() -> None:
    b = GraphBuilder()
    b.op("any", b.lane(0, "work"), UNPRICED, dtype=DType.FLOAT32, size_bytes=8)
    mine = Rates({"h100": Efficiency(0.5, 0.5, 9_000.0, 1_000.0)})
    assert price(b.build(), on(), mine).ops.dur_ns.tolist() == [9_000]
