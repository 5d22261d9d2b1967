"""Kernels beside communication against the same kernels alone."""

import numpy as np
import pytest

from paceline.graph import DeviceKind, Graph, GraphBuilder, LaneKind, OpKind
from paceline.replay import replay
from paceline.replay.beside import beside, covered_ns


def drawn(*kernels: int, exchange: tuple[int, int] = (0, 0), names: str = "") -> Graph:
    """Kernels one after another, and an exchange on another stream from a moment on, so long."""
    b = GraphBuilder()
    gpu = b.device("gpu", kind=DeviceKind.GPU)
    work, talk = (b.lane(name=n, kind=LaneKind.STREAM, device=gpu) for n in ("7", "8"))
    for at, dur in enumerate(kernels):
        b.op(names[at] if names else "k", work, dur)
    before = b.op("idle", talk, exchange[0], kind=OpKind.MARKER)
    b.op("all_reduce", talk, exchange[1], after=[before], kind=OpKind.COLLECTIVE)
    return b.build()


def rows_of(graph: Graph) -> np.ndarray:
    return np.flatnonzero(graph.ops.kind == OpKind.COMPUTE)


def test_what_an_exchange_covers_of_each_kernel_is_counted() -> None:
    graph = drawn(100, 100, 100, exchange=(150, 100))
    assert covered_ns(replay(graph), rows_of(graph)).tolist() == [0, 50, 50]


def test_a_kernel_that_is_covered_in_part_is_held_against_none() -> None:
    graph = drawn(100, 150, 100, exchange=(100, 200))
    found = beside(replay(graph), rows_of(graph))
    assert (found.factor, found.kernels) == (pytest.approx(1.5), 1)


def test_kernels_of_other_names_are_not_compared() -> None:
    graph = drawn(100, 150, exchange=(100, 150), names="ab")
    assert beside(replay(graph), rows_of(graph)).kernels == 0


def test_an_exchange_on_another_device_covers_nothing() -> None:
    b = GraphBuilder()
    gpu, host = b.device("gpu", kind=DeviceKind.GPU), b.device("host")
    b.op("k", b.lane(kind=LaneKind.STREAM, device=gpu), 100)
    b.op("gloo", b.lane(device=host, kind=LaneKind.COMM_THREAD), 100, kind=OpKind.COLLECTIVE)
    graph = b.build()
    assert covered_ns(replay(graph), np.array([0])).tolist() == [0]


def test_each_device_is_covered_by_its_own_exchanges() -> None:
    """Two devices with a kernel of 100 ns each: one exchanges for 60 ns of it, the other for 30."""
    b = GraphBuilder()
    for name, talked in (("one", 60), ("other", 30)):
        gpu = b.device(name, kind=DeviceKind.GPU)
        work, talk = (b.lane(name=n, kind=LaneKind.STREAM, device=gpu) for n in ("7", "8"))
        b.op("k", work, 100)
        b.op("all_reduce", talk, talked, kind=OpKind.COLLECTIVE)
    graph = b.build()
    assert covered_ns(replay(graph), rows_of(graph)).tolist() == [60, 30]


def test_an_exchange_within_another_covers_nothing_more() -> None:
    """From 0 to 300 on one stream, from 100 to 200 on another."""
    b = GraphBuilder()
    gpu = b.device("gpu", kind=DeviceKind.GPU)
    work, outer, inner = (
        b.lane(name=n, kind=LaneKind.STREAM, device=gpu) for n in ("7", "8", "9")
    )  # fmt: skip
    for _ in range(4):
        b.op("k", work, 100)
    b.op("all_reduce", outer, 300, kind=OpKind.COLLECTIVE)
    before = b.op("idle", inner, 100, kind=OpKind.MARKER)
    b.op("all_reduce", inner, 100, after=[before], kind=OpKind.COLLECTIVE)
    graph = b.build()
    assert covered_ns(replay(graph), rows_of(graph)).tolist() == [100, 100, 100, 0]


def test_without_communication_nothing_is_covered() -> None:
    b = GraphBuilder()
    b.op("k", b.lane(kind=LaneKind.STREAM), 100)
    assert beside(replay(b.build()), np.array([0])).factor == 0
