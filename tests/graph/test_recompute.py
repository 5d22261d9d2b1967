"""Layers run again in the backward pass, and activations kept in another form, on drawn graphs.

A step by hand: two layers' forward passes of 30 and 40 ns, their backward passes of 60 and 50. Each
layer takes 100 bytes that it keeps and 20 for a while; its result of 40 is kept beside them.
"""

from dataclasses import replace

import numpy as np
import pytest

from paceline.errors import GraphError
from paceline.graph import (
    UNPRICED,
    DepKind,
    DType,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    LayerMemory,
    MemoryCategory,
    OpKind,
    Phase,
    RankMemory,
    check,
)
from paceline.graph.border import UNSCALED
from paceline.graph.held import with_batch
from paceline.graph.offloaded import offloaded
from paceline.graph.recompute import recomputed
from paceline.graph.stashed import stashed
from paceline.graph.with_packing import Form
from paceline.replay import replay
from paceline.replay.memory_by_rank import RankPeak, rank_peaks

KEPT, BRIEF, RESULT = 100, 20, 40
ACTIVATIONS, TEMPORARY = MemoryCategory.ACTIVATIONS, MemoryCategory.TEMPORARY


def facts() -> Facts:
    layers = tuple(
        LayerMemory(name, "Block", kept_bytes=KEPT + RESULT, output_bytes=RESULT,
                    own_output_bytes=RESULT, float_bytes=KEPT + RESULT, read_bytes=RESULT)
        for name in ("a", "b")
    )  # fmt: skip
    return Facts(world_size=1, memory=(RankMemory(0, weights=1000, layers=layers),))


def step() -> Graph:
    b = GraphBuilder(facts=facts())
    lane = b.lane(0, "main thread")
    for layer, dur in (("a", 30), ("b", 40)):
        op = b.op("forward", lane, dur, phase=Phase.FORWARD, layer=layer)
        b.allocate(op, KEPT, ACTIVATIONS)
        b.allocate(op, BRIEF, TEMPORARY)
        b.allocate(op, -BRIEF, TEMPORARY)
        b.allocate(op, RESULT, ACTIVATIONS)
        b.op("between", lane, 1, kind=OpKind.HOST, phase=Phase.FORWARD)
    for layer, dur in (("b", 60), ("a", 50)):
        op = b.op("backward", lane, dur, phase=Phase.BACKWARD, layer=layer)
        b.allocate(op, -KEPT, ACTIVATIONS)
        b.allocate(op, -RESULT, ACTIVATIONS)
        b.op("grown", lane, 5, phase=Phase.BACKWARD, tensor=f"{layer}.weight")
    b.op("sgd", lane, 10, phase=Phase.UPDATE)
    return check(b.build())


def peak(graph: Graph) -> RankPeak:
    (found,) = rank_peaks(replay(graph))
    return found


def end(graph: Graph, category: MemoryCategory) -> int:
    mine = graph.memory.category == category
    return int(graph.memory.delta_bytes[mine].sum())


def test_the_peak_is_what_stands_and_both_layers_activations() -> None:
    found = peak(step())
    assert found.peak_bytes == 1000 + 2 * (KEPT + RESULT)
    assert found.by_category == {"weights": 1000, "activations": 2 * (KEPT + RESULT)}
    assert (found.op, found.phase, found.layer) == ("forward", "forward", "b")


def test_a_layer_run_again_takes_its_forward_time_once_more_before_its_backward_pass() -> None:
    plain, again = step(), check(recomputed(step(), [["b"]]))
    assert replay(again).step_ns == replay(plain).step_ns + 40
    names = [(op.name, op.phase, op.layer) for op in again if op.layer == "b"]
    assert names == [
        ("forward", Phase.FORWARD, "b"),
        ("forward", Phase.BACKWARD, "b"),
        ("backward", Phase.BACKWARD, "b"),
    ]


def test_layers_run_again_hold_one_layers_activations_beside_their_results() -> None:
    both = check(recomputed(step(), [["a"], ["b"]]))
    assert peak(both).peak_bytes == 1000 + RESULT + KEPT + RESULT
    assert end(both, ACTIVATIONS) == end(both, TEMPORARY) == 0


def test_layers_run_again_together_keep_no_result_between_them() -> None:
    together = check(recomputed(step(), [["a", "b"]]))
    assert replay(together).step_ns == replay(step()).step_ns + 30 + 1 + 40
    assert end(together, ACTIVATIONS) == end(together, TEMPORARY) == 0


def test_a_layer_whose_ops_are_not_known_cannot_be_run_again() -> None:
    with pytest.raises(GraphError, match="does not tell which ops"):
        recomputed(step(), [["c"]])


def test_a_forward_pass_that_communicates_is_not_run_again() -> None:
    b = GraphBuilder()
    main, gloo = b.lane(0), b.lane(0, "gloo", kind=LaneKind.COMM_THREAD)
    asked = b.op("forward", main, 5, phase=Phase.FORWARD, layer="a")
    b.op("all-reduce", gloo, 9, after=[asked], dep=DepKind.LAUNCH, kind=OpKind.COLLECTIVE,
         group=b.group("0", (0,)), instance=b.instance())  # fmt: skip
    b.op("backward", main, 5, phase=Phase.BACKWARD, layer="a")
    with pytest.raises(GraphError, match="communicates"):
        recomputed(b.build(), [["a"]])


def test_halved_activations_stand_between_an_op_that_packs_and_one_that_restores() -> None:
    made = check(stashed(step(), Form("half", 0.5)))
    names = [op.name for op in made if op.layer == "b"]
    assert names == ["forward", "pack half", "unpack half", "backward"]
    packs = made.ops.dur_ns == UNPRICED
    touched = (KEPT + RESULT) * 3 // 2
    assert made.ops.size_bytes[packs].tolist() == [touched] * 4
    assert end(made, ACTIVATIONS) == end(made, TEMPORARY) == 0
    priced = replace(made, ops=replace(made.ops, dur_ns=np.maximum(made.ops.dur_ns, 0)))
    assert peak(priced).highest["activations"] == KEPT + RESULT


def test_without_what_layers_keep_nothing_is_kept_otherwise() -> None:
    untold = replace(step(), facts=Facts())
    with pytest.raises(GraphError, match="older versions lack it"):
        stashed(untold, Form("half", 0.5))
    with pytest.raises(GraphError, match="already are in host memory"):
        offloaded(step(), lambda size: size)


def on_streams() -> Graph:
    b = GraphBuilder(facts=facts())
    stream = b.lane(0, "stream 7", kind=LaneKind.STREAM)
    for layer in ("a", "b"):
        op = b.op("forward", stream, 100, phase=Phase.FORWARD, layer=layer)
        b.allocate(op, KEPT + RESULT, ACTIVATIONS)
    for layer in ("b", "a"):
        op = b.op("backward", stream, 200, phase=Phase.BACKWARD, layer=layer)
        b.allocate(op, -KEPT - RESULT, ACTIVATIONS, at_end=True)
    return check(b.build())


def test_a_backward_op_holds_what_it_reads_at_once_while_it_runs() -> None:
    made = stashed(on_streams(), Form("half", 0.5))
    memory, back = made.memory, made.ops.phase[made.memory.op] == Phase.BACKWARD
    restored = back & (memory.category == TEMPORARY) & (memory.delta_bytes > 0)
    assert [made[op].layer for op in memory.op[restored].tolist()] == ["b", "a"]
    assert memory.delta_bytes[restored].tolist() == [RESULT] * 2
    assert end(made, TEMPORARY) == 0


def launched() -> Graph:
    """The same, each kernel launched by a call of its host; the third, which packs nothing, not."""
    b = GraphBuilder(facts=facts())
    main, stream = b.lane(0), b.lane(0, "stream 7", kind=LaneKind.STREAM)
    for name, phase, layers in (("forward", Phase.FORWARD, "ab"), ("back", Phase.BACKWARD, "ba")):
        for layer in layers:
            call = b.op(f"launch {name}", main, 5, kind=OpKind.HOST, phase=phase, layer=layer)
            b.op(name, stream, 100, phase=phase, layer=layer, after=[call], dep=DepKind.LAUNCH)
    return check(b.build())


def test_a_device_packs_on_its_stream_behind_a_call_of_its_host() -> None:
    made = check(stashed(launched(), Form("half", 0.5, kept=DType.BFLOAT16, calls=(2, 3))))
    on = {lane: [op.name for op in made if op.lane == lane] for lane in (0, 1)}
    assert on[1] == ["forward", "pack half", "forward", "pack half",
                     "unpack half", "back", "unpack half", "back"]  # fmt: skip
    assert on[0] == ["launch forward", "call of half", "launch forward", "call of half",
                     "call of half", "launch back", "call of half", "launch back"]  # fmt: skip
    packs = [op.id for op in made if op.name in ("pack half", "unpack half")]
    calls = [int(made.deps.of(op)[0]) for op in packs]
    assert {made[call].name for call in calls} == {"call of half"}
    assert len(set(calls)) == 4
    assert (made.ops.scale_ppb[calls] / UNSCALED).tolist() == [2, 2, 3, 3]
    whole = KEPT + RESULT
    works = [made.works[made.ops.work[op]].work for op in packs]
    assert [(w.read_bytes, w.written_bytes) for w in works] == [
        *[(whole, whole // 2)] * 2, *[(whole // 2, whole)] * 2,
    ]  # fmt: skip


def test_a_kernel_that_no_call_launched_is_packed_without_one() -> None:
    made = check(stashed(on_streams(), Form("half", 0.5)))
    assert [op.name for op in made if op.layer == "b"] == [
        "forward", "pack half", "unpack half", "backward",
    ]  # fmt: skip
    assert (made.ops.lane == 0).all()


def test_offloaded_activations_travel_beside_the_kernels() -> None:
    plain = on_streams()
    fast = check(offloaded(plain, lambda _: 10))
    assert replay(fast).step_ns == replay(plain).step_ns + 20, "the last layer's cannot be hidden"
    slow = check(offloaded(plain, lambda _: 500))
    assert replay(slow).step_ns > replay(plain).step_ns + 500
    assert peak(fast).highest["activations"] == 2 * (KEPT + RESULT)
    assert end(fast, ACTIVATIONS) == 0


def test_a_larger_batch_holds_more_activations_and_the_same_weights() -> None:
    found = peak(with_batch(step(), 3.0))
    assert found.by_category == {"weights": 1000, "activations": 6 * (KEPT + RESULT)}


def test_a_gradient_that_is_there_is_added_to() -> None:
    held = RankMemory(0, weights=1000, gradients=50)
    b = GraphBuilder(facts=Facts(world_size=1, memory=(held,)))
    lane = b.lane(0)
    clear = b.op("zero_grad", lane, 1)
    b.allocate(clear, -50, MemoryCategory.GRADIENTS)
    for _ in range(3):  # micro-batches
        op = b.op("backward", lane, 10, phase=Phase.BACKWARD)
        b.allocate(op, 50, MemoryCategory.GRADIENTS)
    assert peak(b.build()).by_category == {"weights": 1000, "gradients": 50}


def test_an_update_that_is_cut_leaves_each_rank_its_part_of_the_state() -> None:
    held = RankMemory(0, weights=100, optimizer=200)
    b = GraphBuilder(facts=Facts(world_size=1, memory=(held,), update_shards=4))
    op = b.op("forward", b.lane(0), 1)
    b.allocate(op, 8, TEMPORARY)
    assert peak(b.build()).by_category == {"weights": 100, "optimizer": 50, "temporary": 8}


def test_on_a_device_the_thread_of_the_backward_pass_launches_the_second_forward() -> None:
    """Two threads and a stream: kernels of 100 and 200 ns for each layer, launches of 5."""
    b = GraphBuilder(facts=facts())
    main, engine = b.lane(0, "main thread"), b.lane(0, "autograd")
    stream = b.lane(0, "stream", kind=LaneKind.STREAM)

    def layer(name: str, thread: int, phase: Phase, dur: int) -> int:
        call = b.op("call", thread, 5, phase=phase, layer=name)
        kernel = b.op("kernel", stream, dur, phase=phase, layer=name)
        b.link(call, kernel, DepKind.LAUNCH)
        return call

    for name in ("a", "b"):
        last = layer(name, main, Phase.FORWARD, 100)
    first = [layer(name, engine, Phase.BACKWARD, 200) for name in ("b", "a")]
    b.link(last, first[0], DepKind.AUTOGRAD)
    wait = b.op("wait", main, kind=OpKind.WAIT, phase=Phase.BACKWARD)
    b.link(first[-1], wait, DepKind.AUTOGRAD)
    plain = check(b.build())
    made = check(recomputed(plain, [("a",), ("b",)]))
    assert replay(made).step_ns == replay(plain).step_ns + 2 * 100
    again = made.ops.phase == Phase.BACKWARD
    assert (made.ops.lane[again] == engine).sum() == 4, "two calls of each pass"
    assert (made.ops.lane[again] == main).sum() == 1, "the wait alone"


def test_of_a_rank_whose_memory_is_not_told_the_allocations_alone_are_known() -> None:
    b = GraphBuilder()
    b.allocate(b.op("forward", b.lane(0), 1), 8, TEMPORARY)
    found = peak(b.build())
    assert (found.peak_bytes, found.by_category) == (8, {"temporary": 8})
