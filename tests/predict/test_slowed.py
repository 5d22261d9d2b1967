"""Kernels that communication slows: what the recording shows, kept for other overlaps."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from paceline.graph import (
    Collective,
    DepKind,
    DeviceKind,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    RecordedGpu,
)
from paceline.graph.facts import Facts
from paceline.predict import Question, predict
from paceline.predict.slowed import relieved, slowdown_of
from paceline.replay import Contention, Slowdown, replay
from paceline.replay.steps import step_times
from paceline.trace.build import build
from paceline.trace.readers import read_all
from paceline.trace.readers.source import sources

US = 1000
HALVED = "scale(select='kind=collective', factor=0.5)"


@dataclass(frozen=True)
class Machine:
    """Two streams of one GPU: `forward` kernels alone, then `backward` like ones, and an exchange
    from the first of these on; kernels beside it take `slower` times as long."""

    forward: int = 10
    backward: int = 20
    kernel_ns: tuple[int, ...] = (100 * US,)  # in turn, each with a name of its own
    exchange_ns: int = 2000 * US
    slower: float = 1.25

    def alone(self) -> Graph:
        gpu = RecordedGpu("NVIDIA H100 80GB HBM3", units=132)
        b = GraphBuilder(facts=Facts(world_size=1, gpus=(gpu,)))
        host = b.lane(name="host", device=b.device("host"))
        card = b.device("gpu", kind=DeviceKind.GPU)
        work, talk = (b.lane(name=n, kind=LaneKind.STREAM, device=card) for n in ("7", "8"))
        asked = b.op("launch", host, US, kind=OpKind.HOST)
        kernels = []
        for at in range(self.forward + self.backward):
            turn = at % len(self.kernel_ns)
            kernels.append(b.op(f"kernel {turn}", work, self.kernel_ns[turn], after=[asked],
                                dep=DepKind.LAUNCH))  # fmt: skip
        b.op("all_reduce", talk, self.exchange_ns, after=[kernels[self.forward]],
             dep=DepKind.GRADIENT, kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE,
             size_bytes=10**8)  # fmt: skip
        return b.build()

    def runs(self, graph: Graph) -> int:
        """How long the machine takes for a step."""
        return self._timeline(graph).step_ns

    def recording(self) -> Graph:
        """What a profiler sees: kernels as long as they took beside the exchange."""
        graph = self.alone()
        timeline = self._timeline(graph)
        took = timeline.end_ns - timeline.start_ns
        return replace(graph, ops=replace(graph.ops, dur_ns=took))

    def _timeline(self, graph: Graph):  # type: ignore[no-untyped-def]
        slow = (Slowdown(), Slowdown(compute=self.slower))
        return replay(graph, contention=Contention(slow))


def with_exchange(graph: Graph, factor: float) -> Graph:
    talks = graph.ops.kind == OpKind.COLLECTIVE
    dur = np.where(talks, np.rint(graph.ops.dur_ns * factor), graph.ops.dur_ns).astype(np.int64)
    return replace(graph, ops=replace(graph.ops, dur_ns=dur))


def test_a_shorter_exchange_slows_fewer_kernels() -> None:
    machine = Machine()
    recording = machine.recording()
    assert slowdown_of(recording) == pytest.approx(1.25, rel=1e-3)
    # 11 kernels of 100 us alone, 16 of 125 beside 2 ms, 3 more; with 1 ms, 8 of 125 and 11 more
    assert predict(recording).step_ns == pytest.approx(3401 * US, abs=100)
    assert predict(recording, [HALVED]).step_ns == pytest.approx(3201 * US, rel=1e-3)
    told = predict(recording).rests_on
    assert any(line.startswith("kernels beside communication take 1.25 times") for line in told)


def test_a_longer_exchange_slows_more_of_them() -> None:
    machine = Machine(exchange_ns=1500 * US)
    doubled = "scale(select='kind=collective', factor=2)"
    truth = machine.runs(with_exchange(machine.alone(), 2))
    assert predict(machine.recording(), [doubled]).step_ns == pytest.approx(truth, rel=2e-3)


@given(
    forward=st.integers(6, 20),
    backward=st.integers(15, 60),
    kernels=st.lists(st.integers(20 * US, 200 * US), min_size=1, max_size=3).map(tuple),
    exchange=st.integers(2500 * US, 8000 * US),
    slower=st.floats(1.05, 1.8),
    factor=st.sampled_from([0.25, 0.5, 2.0]),
)
@settings(max_examples=40, deadline=None)
def test_a_machine_that_slows_kernels_is_predicted_from_its_recording(
    forward: int,
    backward: int,
    kernels: tuple[int, ...],
    exchange: int,
    slower: float,
    factor: float,
) -> None:
    machine = Machine(forward, backward, kernels, exchange, slower)
    recording = machine.recording()
    assume(slowdown_of(recording) > 1)
    assert predict(recording).step_ns == pytest.approx(machine.runs(machine.alone()), rel=1e-4)
    change = f"scale(select='kind=collective', factor={factor})"
    truth = machine.runs(with_exchange(machine.alone(), factor))
    assert predict(recording, [change]).step_ns == pytest.approx(truth, rel=0.03)


def test_where_too_few_kernels_show_it_recorded_times_stay() -> None:
    recording = Machine(backward=6, exchange_ns=500 * US).recording()
    assert slowdown_of(recording) == 1
    assert relieved(recording, recording, Question()) is recording


def test_draws_know_no_slowdown_and_keep_recorded_times() -> None:
    recording = Machine().recording()
    assert relieved(recording, recording, Question(draws=3)) is recording


def test_work_of_processors_is_left_alone() -> None:
    b = GraphBuilder()
    main, gloo = b.lane(name="main"), b.lane(name="gloo", kind=LaneKind.COMM_THREAD)
    for _ in range(30):
        b.op("mm", main, 100)
    b.op("all_reduce", gloo, 1000, kind=OpKind.COLLECTIVE)
    assert slowdown_of(b.build()) == 1


def test_a_real_nccl_job_shows_its_slowdown_and_keeps_its_step(real_traces: Path) -> None:
    graph = build(read_all(sources([real_traces / "nccl-metadata/nccl_data.json.gz"])))
    assert slowdown_of(graph) == pytest.approx(1.08, abs=0.01)
    recorded = float(np.median(step_times(replay(graph)).lasted_ns))
    assert predict(graph).step_ns == pytest.approx(recorded, rel=0.015)
