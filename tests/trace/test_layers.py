"""What a recorder tells about a step finds its way into the graph."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.graph import Graph, OpKind, Phase, check, load_graph
from paceline.graph.files import KEPT
from paceline.graph.work import Matrix
from paceline.record import sidecar
from paceline.record.sidecar import (
    Backward,
    Cost,
    Data,
    End,
    Layer,
    Memory,
    Mode,
    RecordedGroup,
    RecordedHost,
    Step,
)
from paceline.trace.runs import build_run, open_run

US = 1000


def recording(document: Callable[..., Any], folder: Path, *extra: sidecar.Record) -> Path:
    """A detail step at 1000 us and a recorded one at 2000 us with the same ops: a forward product
    with autograd's number 3, an activation, and the product's backward."""

    def ops(d: Any, at: float, **shapes: Any) -> Any:
        d.op("aten::mm", at + 10, 20, **{"Sequence number": 3, **shapes})
        d.op("aten::relu", at + 40, 5)
        return d.op("MmBackward0", at + 60, 30, **{"Sequence number": 3, "Fwd thread id": 1})

    shapes = {"Input Dims": [[4, 5], [5, 6]], "Input type": ["float", "float"]}
    ops(document(), 1000, **shapes).save(folder / sidecar.detail_name(0))
    ops(document(), 2000).save(folder / sidecar.trace_name(0))
    told: list[sidecar.Record] = [
        RecordedHost(rank=0, world_size=1, main_thread=1),
        RecordedGroup(name="0", ranks=[0]),
        Step(index=6, begin_ns=1000 * US, end_ns=1200 * US, mode=Mode.DETAIL),
        Layer(module="net.0", kind="Linear", thread=1, begin_ns=1005 * US, end_ns=1035 * US),
        Layer(module="net", kind="Net", thread=1, begin_ns=1002 * US, end_ns=1050 * US),
        Step(
            index=7,
            begin_ns=2000 * US,
            end_ns=2200 * US,
            mode=Mode.RECORDED,
            update_begin_ns=2150 * US,
        ),
        Data(thread=1, begin_ns=2000 * US, end_ns=2008 * US),
        Backward(thread=1, begin_ns=2055 * US, end_ns=2095 * US),
        *extra,
        End(reason="complete", at_ns=2300 * US, steps=8, recorded=1),
    ]
    path = folder / sidecar.facts_name(0)
    path.write_bytes(b"".join(sidecar.encode(record) for record in told))
    return folder


@pytest.fixture
def graph(document: Callable[..., Any], tmp_path: Path) -> Graph:
    return check(build_run(recording(document, tmp_path)))


def by_name(graph: Graph, name: str) -> Any:
    (found,) = [op for op in graph if op.name == name]
    return found


def test_ops_get_the_innermost_module_of_the_same_op_in_the_detail_step(graph: Graph) -> None:
    assert by_name(graph, "aten::mm").layer == "net.0"
    assert by_name(graph, "aten::relu").layer == "net"


def test_ops_have_the_work_that_shapes_of_the_detail_step_tell(graph: Graph) -> None:
    product = by_name(graph, "aten::mm")
    assert product.work is not None
    assert product.work.work.dims == Matrix(1, 4, 6, 5)
    assert graph.ops.flops[product.id] == 2 * 4 * 5 * 6


def test_ops_of_a_devices_backward_thread_have_their_shapes_too(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    run = recording(document, tmp_path)
    shapes = {"Input Dims": [[7, 5], [5, 6]], "Input type": ["float", "float"]}
    for name, begin, told in (
        (sidecar.detail_name(0), 1000, shapes),
        (sidecar.trace_name(0), 2000, {}),
    ):
        drawn = document().op("aten::relu", begin + 40, 5)
        number = {"Sequence number": 3, "Fwd thread id": 1}
        drawn.event("cpu_op", "MmBackward0", begin + 60, 30, tid=2, **number)
        drawn.event("cpu_op", "aten::mm", begin + 65, 20, tid=2, **told)
        drawn.save(run / name)
    product = by_name(build_run(run), "aten::mm")
    assert product.work is not None
    assert product.work.work.dims == Matrix(1, 7, 6, 5)


def test_a_backward_op_gets_the_module_of_its_forward_op(graph: Graph) -> None:
    assert by_name(graph, "MmBackward0").layer == "net.0"


def test_an_op_that_other_steps_do_not_run_is_of_the_module_around_it(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    """As in a mixture of experts, where one got no token."""
    run = recording(document, tmp_path)
    shared = (("aten::t", 6), ("aten::mm", 10), ("aten::relu", 40), ("MmBackward0", 60))
    for name, begin, added in (
        (sidecar.detail_name(0), 1000, ()),
        (sidecar.trace_name(0), 2000, (("aten::zero_", 8), ("aten::copy_", 37))),
    ):
        drawn = document()
        for op, at in sorted((*shared, *added), key=lambda row: row[1]):
            drawn.op(op, begin + at, 1.5)
        drawn.save(run / name)
    graph = build_run(run)
    assert by_name(graph, "aten::zero_").layer == "net.0"
    assert by_name(graph, "aten::copy_").layer == "", "between two modules"
    assert by_name(graph, "aten::relu").layer == "net"


def test_phases_follow_what_was_told(graph: Graph) -> None:
    assert by_name(graph, "aten::mm").phase is Phase.FORWARD
    assert by_name(graph, "MmBackward0").phase is Phase.BACKWARD
    assert sum(op.dur_ns for op in graph if op.kind is OpKind.DATA) == 8 * US
    assert sum(op.dur_ns for op in graph if op.phase is Phase.UPDATE) == 50 * US


def test_memory_peaks_by_category_are_kept(document: Callable[..., Any], tmp_path: Path) -> None:
    marks = (Memory(step=6, weights=100, activations=70), Memory(step=6, peak=False, weights=999))
    graph = build_run(recording(document, tmp_path, *marks))
    assert graph.meta["memory_peaks"] == {"weights": 100, "activations": 70}


def test_the_cost_of_recording_is_taken_out_of_every_op(
    document: Callable[..., Any], tmp_path: Path, graph: Graph
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    cheaper = build_run(recording(document, other, Cost(op_ns=600)))
    assert int(graph.ops.dur_ns.sum() - cheaper.ops.dur_ns.sum()) == pytest.approx(1800, abs=700)


def test_what_recording_cost_the_calls_of_a_driver_is_taken_out_of_them(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    took = []
    for name, cost in (("as it was", Cost(op_ns=0)), ("without", Cost(op_ns=0, call_ns=3000))):
        (tmp_path / name).mkdir()
        run = recording(document, tmp_path / name, cost)
        drawn = document().op("aten::relu", 2040, 30)
        drawn.call("cudaLaunchKernel", 2045, 10, 1).kernel("relu", 2060, 5, 1)
        drawn.call("cudaLaunchKernel", 2058, 10, 2).kernel("relu", 2075, 5, 2)
        drawn.save(run / sidecar.trace_name(0))
        made = build_run(run)
        took.append(int(made.ops.dur_ns[made.ops.phase != Phase.UPDATE].sum()))
    assert took[0] - took[1] == 2 * 3000


def test_a_recording_becomes_a_graph_when_it_is_first_opened(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    run = recording(document, tmp_path)
    built = open_run(run)
    assert load_graph(run / KEPT).ops.dur_ns.tolist() == built.ops.dur_ns.tolist()
    assert open_run(run).names == built.names


def test_the_workers_that_prepared_batches_are_known(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    beside = Data(thread=1, begin_ns=2010 * US, end_ns=2011 * US, workers=3, prefetch=2)
    made = build_run(recording(document, tmp_path, beside))
    assert (made.facts.loading.workers, made.facts.loading.prefetch) == (3, 2)
