"""Waiting for a core, told from work: on hand-drawn traces of one thread."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.graph import Graph, OpKind, check, without_core_waits
from paceline.machine import Pulse
from paceline.record.sidecar import (
    AnyRecord,
    Collective,
    CoreTime,
    Counts,
    Mode,
    Pulsed,
    RecordedHost,
    Sidecar,
    Step,
)
from paceline.replay import replay
from paceline.trace.build import build
from paceline.trace.core_waits import TimedLane, spread_delay
from paceline.trace.counts import count_notes
from paceline.trace.enrich import enrich
from paceline.trace.readers.chrome import read
from paceline.trace.readers.source import Source

US = 1000
HOST = RecordedHost(rank=0, world_size=1, main_thread=1, cores=2)


def got(begin_us: int, end_us: int, delay_us: int, *, turns: int = 1, thread: int = 1) -> CoreTime:
    """A thread that never sleeps: it ran whenever it did not wait for a core."""
    return CoreTime(
        thread=thread,
        begin_ns=begin_us * US,
        end_ns=end_us * US,
        run_ns=(end_us - begin_us - delay_us) * US,
        delay_ns=delay_us * US,
        turns=turns,
    )


def lane(*lengths: tuple[int, int]) -> TimedLane:
    """Ops of (length, usual length), one after the other."""
    length, usual = np.array(lengths, np.int64).T
    return TimedLane(np.arange(len(length)), np.cumsum(length) - length, length, usual)


def shared(run: int, delay: int, turns: int, *lengths: tuple[int, int]) -> list[int]:
    """What each op gets of a delay."""
    told = CoreTime(thread=1, begin_ns=0, end_ns=1, run_ns=run, delay_ns=delay, turns=turns)
    return spread_delay(told, lane(*lengths)).tolist()


def test_what_a_thread_ran_for_recording_is_no_reason_against_its_waiting() -> None:
    told = CoreTime(thread=1, begin_ns=0, end_ns=140, run_ns=110, delay_ns=30, turns=1)
    ops = lane((60, 30), (60, 60))  # 120 of the 140: recording took 20, which are off the ops
    assert spread_delay(told, ops, 20).tolist() == [30, 0]
    assert spread_delay(told, ops).tolist() == [10, 0]


@pytest.fixture
def three_steps(document: Callable[..., Any], tmp_path: Path) -> Callable[..., Graph]:
    """Steps of mm 10 us and add 5 us; in the second one mm takes 40."""
    d = document()
    for begin, length in ((0, 10), (20, 40), (70, 10)):
        d.op("aten::mm", begin, length).op("aten::add", begin + length, 5)
    path = d.save(tmp_path / "rank0.json")
    borders = ((0, 20), (20, 70), (70, 90))

    def built(*told: AnyRecord, counts: Sequence[Counts | None] = (None,) * 3) -> Graph:
        steps = [
            Step(index=i, begin_ns=a * US, end_ns=b * US, mode=Mode.RECORDED, counts=counts[i])
            for i, (a, b) in enumerate(borders)
        ]
        facts = Sidecar(records=[HOST, *steps, *told], truncated=False)
        trace = enrich(read(Source(path)), facts)
        return check(build([trace], {0: facts}))

    return built


def lengths(graph: Graph, name: str) -> list[float]:
    """In microseconds, of all ops of a name."""
    mine = np.array([op.name == name for op in graph])
    return (graph.ops.dur_ns[mine] / US).tolist()


def test_waiting_comes_off_the_op_that_took_longer_than_in_other_steps(
    three_steps: Callable[..., Graph],
) -> None:
    graph = three_steps(got(20, 70, 30))
    assert lengths(graph, "aten::mm") == [10, 10, 10]
    assert lengths(graph, "waiting for a core") == [30]


def test_the_replayed_step_is_as_long_as_without_the_counts(
    three_steps: Callable[..., Graph],
) -> None:
    with_counts, without = three_steps(got(20, 70, 30)), three_steps()
    assert replay(with_counts).step_ns == replay(without).step_ns
    assert np.all(without.ops.kind != OpKind.CORE_WAIT)


def test_without_its_waits_a_job_is_shorter_by_what_it_waited_and_otherwise_the_same(
    three_steps: Callable[..., Graph],
) -> None:
    plain, worked = three_steps(), without_core_waits(three_steps(got(20, 70, 30)))
    assert replay(plain).step_ns - replay(worked).step_ns == 30 * US
    assert np.array_equal(worked.ops.kind, plain.ops.kind)
    assert np.array_equal(worked.deps.src, plain.deps.src)
    assert np.array_equal(worked.deps.kind, plain.deps.kind)


def test_samples_are_of_work_not_of_waiting(three_steps: Callable[..., Graph]) -> None:
    graph = three_steps(got(20, 70, 30))
    assert graph.spread is None or graph.spread.samples_ns.max(initial=0) <= 35 * US
    assert three_steps().spread is not None


def test_a_thread_that_the_trace_does_not_show_takes_nothing_from_ops(
    three_steps: Callable[..., Graph],
) -> None:
    graph = three_steps(got(20, 70, 30, thread=99))
    assert np.all(graph.ops.kind != OpKind.CORE_WAIT)


def test_a_graph_without_core_waits_is_itself(three_steps: Callable[..., Graph]) -> None:
    graph = three_steps()
    assert without_core_waits(graph) is graph


def test_a_transfer_whose_thread_had_no_core_is_followed_by_its_wait(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    d = document().op("aten::mm", 0, 10).op("c10d::allreduce_", 10, 2).op("aten::add", 60, 5)
    d.event("user_annotation", "gloo:all_reduce", 12, 40, tid=2)
    step = Step(index=0, begin_ns=0, end_ns=70 * US, mode=Mode.RECORDED)
    sent = Collective(order=0, group="dp", sequence=0, op="all_reduce", thread=1, enqueue_ns=10_500)
    waited = CoreTime(thread=2, begin_ns=0, end_ns=70 * US, run_ns=0, delay_ns=15 * US, turns=1)
    facts = Sidecar(records=[HOST, step, sent, waited], truncated=False)
    trace = enrich(read(Source(d.save(tmp_path / "rank0.json"))), facts)
    graph = check(build([trace], {0: facts}))
    (transfer,) = np.flatnonzero(graph.ops.kind == OpKind.COLLECTIVE)
    assert graph.ops.dur_ns[transfer] == 25 * US
    behind = graph[int(transfer) + 1]
    assert (behind.kind, behind.dur_ns, behind.deps) == (OpKind.CORE_WAIT, 15 * US, (transfer,))


def test_what_is_beyond_goes_to_the_longest_of_as_many_ops_as_there_were_turns() -> None:
    assert shared(100, 60, 2, (100, 100), (50, 40), (10, 10)) == [36, 24, 0]


def test_no_more_is_taken_than_the_ops_lasted_beyond_what_the_thread_ran() -> None:
    assert sum(shared(90, 60, 1, (100, 100))) == 10
    assert sum(shared(200, 60, 1, (100, 100))) == 0


def test_an_op_never_waited_for_longer_than_it_took() -> None:
    assert shared(0, 500, 9, (100, 10), (50, 50)) == [100, 50]


def test_the_graph_holds_the_run_time_of_plain_steps_and_the_median_pulse(
    three_steps: Callable[..., Graph],
) -> None:
    plain = [
        Step(
            index=i, begin_ns=0, end_ns=90, mode=Mode.PLAIN, counts=Counts(run_ns=run, delay_ns=90)
        )
        for i, run in ((3, 10), (4, 30), (5, 20))
    ]
    pulses = [Pulsed(Pulse(i, arithmetic, 200, 50)) for i, arithmetic in enumerate((90, 100, 300))]
    graph = three_steps(*plain, *pulses)
    assert graph.facts.plain_run_ns == 20
    assert graph.facts.pulse == Pulse(1, 100, 200, 50)


def test_a_recording_of_an_earlier_version_reads_as_before(
    three_steps: Callable[..., Graph],
) -> None:
    graph = three_steps()
    assert graph.facts.plain_run_ns == 0
    assert graph.facts.pulse is None
    assert graph.meta["notes"] == []


def test_a_kernel_without_schedstat_is_said(three_steps: Callable[..., Graph]) -> None:
    graph = three_steps(counts=[Counts()] * 3)
    (note,) = graph.meta["notes"]
    assert "waiting for a core cannot be kept apart from work" in note


def test_steps_from_a_set_clock_on_are_left_out_and_said(
    three_steps: Callable[..., Graph],
) -> None:
    graph = three_steps(counts=[Counts(run_ns=1), Counts(run_ns=1, jumped_ns=-5), None])
    assert np.unique(graph.ops.step).tolist() == [0]
    assert "in step 1 a clock was set" in graph.meta["notes"][0]


def test_a_machine_that_slept_in_the_first_step_leaves_doubtful_times(
    three_steps: Callable[..., Graph],
) -> None:
    graph = three_steps(counts=[Counts(run_ns=1, slept_ns=5), None, None])
    assert np.unique(graph.ops.step).tolist() == [0, 1, 2]
    assert "times are doubtful" in graph.meta["notes"][0]


def test_throttled_and_stolen_time_are_said_as_shares_of_the_steps() -> None:
    counts = Counts(run_ns=1, throttled_ns=120, stolen_ns=100)
    step = Step(index=0, begin_ns=0, end_ns=1000, mode=Mode.RECORDED, counts=counts)
    throttled, stolen = count_notes(Sidecar(records=[HOST, step], truncated=False))
    assert throttled == "the container's quota throttled 12 % of the steps"
    assert stolen == "the host stole 5 % of the recorded steps"
