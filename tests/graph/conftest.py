"""A graph with something in every table, and how two graphs are told apart."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest

from paceline.graph import (
    Axis,
    Collective,
    DepKind,
    DeviceKind,
    Discipline,
    DType,
    Graph,
    GraphBuilder,
    LaneKind,
    MemoryCategory,
    OpKind,
    Phase,
)
from paceline.graph.work import Attention, Launch, Recorded, attention


@pytest.fixture
def everything() -> Graph:
    """Two ranks, and something in every table."""
    b = GraphBuilder(meta={"source": "drawn", "world_size": 2, "steps": [1, 2], "none": None})
    world = b.group("world", (0, 1), axis=Axis.DATA)
    b.group("alone", ())
    joined = b.instance()
    for rank in (0, 1):
        gpu = b.device(f"gpu {rank}", host=rank, kind=DeviceKind.GPU, memory_bytes=80 << 30)
        stream = b.lane(rank, "stream 7", device=gpu, kind=LaneKind.STREAM)
        nic = b.lane(rank, "nic", kind=LaneKind.LINK_OUT, discipline=Discipline.PRIORITY)
        load = b.op("load", stream, 2**31 + 5, kind=OpKind.DATA, phase=Phase.DATA, step=3)
        seen = attention(Attention(2, 8, 2, 9, 9, 64, 64, causal=True), DType.BFLOAT16)
        told = Recorded("aten::sdpa", seen, Launch(132, 128, 255, 1024), inferred=rank == 1)
        matmul = b.op("矩阵 mul", stream, 2**40, after=[load], layer="fc1", flops=2**62, work=told)
        b.op(
            "all_reduce",
            nic,
            7,
            after=[matmul],
            dep=DepKind.GRADIENT,
            kind=OpKind.COLLECTIVE,
            collective=Collective.ALL_REDUCE,
            dtype=DType.FLOAT16,
            tensor="fc1.weight",
            size_bytes=2**33,
            group=world,
            instance=joined,
            priority=-4,
        )
        b.link(load, matmul + 1, DepKind.ORDER, inferred=True)
        b.drain(load, nic)
        b.allocate(matmul, 2**35, MemoryCategory.ACTIVATIONS)
        b.allocate(matmul + 1, -(2**35), MemoryCategory.ACTIVATIONS, at_end=True)
        b.samples(matmul, [2**40, 2**40 + 1])
    return b.build()


@pytest.fixture
def same() -> Callable[[Any, Any], bool]:
    return _same


def _same(one: Any, other: Any) -> bool:
    """Equal to the last byte and type."""
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and np.array_equal(one, other))
    if is_dataclass(one) and type(one) is type(other):
        return all(_same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return bool(one == other)
