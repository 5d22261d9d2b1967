"""A host that is a whole queue ahead of its device waits there, and that is no work of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.graph import Graph, LaneKind, OpKind
from paceline.replay import replay
from paceline.trace.build import build
from paceline.trace.readers import read_all
from paceline.trace.readers.source import sources

HOLDS, KERNEL_US, LAUNCH_US = 1_022, 100, 5


@pytest.fixture
def graph(document: Callable[..., Any], tmp_path: Path) -> Callable[[int], Graph]:
    """So many kernels in a row, launched as fast as a queue of 1,022 takes them."""

    def made(count: int) -> Graph:
        drawn, now, free = document(), 0.0, 0.0
        done: list[float] = []
        for at in range(count):
            begun = now
            if at >= HOLDS:
                now = max(now, done[at - HOLDS])
            now += LAUNCH_US
            free = max(now, free) + KERNEL_US
            done.append(free)
            drawn.call("cudaLaunchKernel", begun, now - begun, at)
            drawn.kernel("relu", free - KERNEL_US, KERNEL_US, at)
        drawn.op("aten::many", 0.0, now + 1)
        return build(read_all(sources([drawn.save(tmp_path / "trace.json")])))

    return made


def host_work_us(graph: Graph) -> float:
    ops = graph.ops
    threads = graph.lanes.kind[ops.lane] == LaneKind.THREAD
    named = np.array([name == "cudaLaunchKernel" for name in graph.names])[ops.name]
    return float(ops.dur_ns[threads & named & (ops.kind != OpKind.WAIT)].sum() / 1e3)


def device_done_ns(graph: Graph) -> int:
    on_stream = graph.lanes.kind[graph.ops.lane] == LaneKind.STREAM
    return int(replay(graph).end_ns[on_stream].max())


def test_calls_of_a_full_queue_take_as_long_as_others_and_replay_as_recorded(
    graph: Callable[[int], Graph],
) -> None:
    count = HOLDS + 300
    made = graph(count)
    assert host_work_us(made) == pytest.approx(count * LAUNCH_US, rel=0.02)
    assert device_done_ns(made) == pytest.approx(count * KERNEL_US * 1e3, rel=0.03)


def test_on_a_faster_device_the_host_waits_less(graph: Callable[[int], Graph]) -> None:
    from paceline.strategies import parse

    made = graph(HOLDS + 300)
    halved = parse("scale(select='name~relu', factor=0.5)").transform(made)
    assert device_done_ns(halved) == pytest.approx(device_done_ns(made) / 2, rel=0.02)


def test_a_queue_that_was_never_full_tells_nothing(graph: Callable[[int], Graph]) -> None:
    ops = (made := graph(200)).ops
    threads = made.lanes.kind[ops.lane] == LaneKind.THREAD
    assert not (ops.kind[threads] == OpKind.WAIT).any()
