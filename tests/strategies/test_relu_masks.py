"""Masks in a graph: which ReLUs, what is kept then, and what packs it."""

import pytest

from paceline.graph import UNPRICED, Graph, GraphBuilder, MemoryCategory, Phase, check
from paceline.strategies import StrategyError, parse

IMAGE = 3200


def drawn(reader: str, other: int = 0) -> Graph:
    """A ReLU and what reads it; a pool keeps its result and places of twice the bytes, and takes
    `other` bytes that are no activation."""
    b = GraphBuilder()
    lane = b.lane()
    b.op("aten::mkldnn_convolution", lane, 100, phase=Phase.FORWARD, layer="a")
    relu = b.op("aten::clamp_min", lane, 10, phase=Phase.FORWARD, layer="b")
    b.allocate(relu, IMAGE, MemoryCategory.ACTIVATIONS)
    read = b.op(f"aten::{reader}", lane, 10, phase=Phase.FORWARD, layer="c")
    if "pool" in reader:
        b.allocate(read, IMAGE // 4, MemoryCategory.ACTIVATIONS)
        b.allocate(read, IMAGE // 2, MemoryCategory.ACTIVATIONS)
        b.allocate(read, other, MemoryCategory.OTHER)
    back = b.op(f"aten::{reader}_backward", lane, 10, phase=Phase.BACKWARD, layer="c")
    if "pool" in reader:
        b.allocate(back, -IMAGE // 2, MemoryCategory.ACTIVATIONS)
    passed = b.op("aten::threshold_backward", lane, 10, phase=Phase.BACKWARD, layer="b")
    b.allocate(passed, -IMAGE, MemoryCategory.ACTIVATIONS)
    return check(b.build())


def kept(graph: Graph) -> dict[str, list[int]]:
    memory, found = graph.memory, dict[str, list[int]]()
    for op, delta, kind in zip(memory.op, memory.delta_bytes, memory.category):
        if kind == MemoryCategory.ACTIVATIONS:
            found.setdefault(graph[int(op)].name, []).append(int(delta))
    return found


@pytest.mark.parametrize("other", [0, IMAGE])
def test_a_relu_before_a_pool_keeps_a_bit_a_value_and_the_pool_short_places(other: int) -> None:
    made = check(parse("relu_masks").transform(drawn("max_pool2d_with_indices", other)))
    assert kept(made) == {
        "aten::clamp_min": [IMAGE // 32],
        "aten::max_pool2d_with_indices": [IMAGE // 4, IMAGE // 8],
        "aten::max_pool2d_with_indices_backward": [-IMAGE // 8],
        "aten::threshold_backward": [-IMAGE // 32],
    }


def test_the_result_itself_is_there_until_it_was_read() -> None:
    made = parse("relu_masks").transform(drawn("mean"))
    memory = made.memory
    rows = memory.category == MemoryCategory.TEMPORARY
    names = [made[int(op)].name for op in memory.op[rows]]
    assert dict(zip(names, memory.delta_bytes[rows].tolist())) == {
        "aten::clamp_min": IMAGE,
        "aten::mean": -IMAGE,
    }


def test_masks_are_packed_behind_the_relu_and_spread_before_it_goes_back() -> None:
    made = parse("relu_masks").transform(drawn("mean"))
    names = [op.name for op in made]
    assert names[names.index("aten::clamp_min") + 1] == "pack relu masks"
    assert names[names.index("aten::threshold_backward") - 1] == "unpack relu masks"
    unpriced = [op.name for op in made if op.dur_ns == UNPRICED]
    assert unpriced == ["pack relu masks", "unpack relu masks"]


def test_a_relu_that_a_convolution_reads_is_left_and_alone_it_is_refused() -> None:
    with pytest.raises(StrategyError, match="masks save nothing"):
        parse("relu_masks").transform(drawn("mkldnn_convolution"))
