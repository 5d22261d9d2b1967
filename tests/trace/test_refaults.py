"""Page faults of plain steps, given to recorded ones."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.graph import Graph, OpKind
from paceline.record.sidecar import CoreTime, Cost, Counts, Mode, RecordedHost, Sidecar, Step
from paceline.replay import replay
from paceline.trace.build import build
from paceline.trace.readers.chrome import read
from paceline.trace.readers.source import Source
from paceline.trace.refaults import dealt, refaults_ns

US = 1000
MODES = {"p": Mode.PLAIN, "d": Mode.DETAIL, "r": Mode.RECORDED}


def told(modes: str, faults: Sequence[int], cost: Cost) -> Sidecar:
    """Steps of these modes that had so many faults."""
    steps = [
        Step(index=i, begin_ns=0, end_ns=1, mode=MODES[mode], faults=count)
        for i, (mode, count) in enumerate(zip(modes, faults, strict=True))
    ]
    return Sidecar(records=[*steps, cost], truncated=False)


def test_recorded_steps_get_the_faults_of_plain_ones_before_them_for_their_own() -> None:
    """Those of 0, 5 and 10 faults dealt to four steps make 0, 10/3, 20/3 and 10: the most are of
    the third, which has most of its own."""
    facts = told("pppdrrrrpp", [5, 0, 10, 0, 0, 0, 2, 0, 70, 70], Cost(op_ns=1.0, fault_ns=3000.0))
    assert refaults_ns(facts, [4, 5, 6, 7]).tolist() == [0, 10_000, 24_000, 20_000]
    assert refaults_ns(facts, [6]).tolist() == [24_000]  # whichever of them are asked for


def test_few_steps_with_many_faults_stay_few() -> None:
    facts = told("pppppdrrrrr", [0, 0, 4000, 0, 0, 0, 0, 0, 0, 0, 0], Cost(op_ns=1.0, fault_ns=1.0))
    assert refaults_ns(facts, [6, 7, 8, 9, 10]).tolist() == [0, 0, 0, 0, 4000]


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=30), st.integers(1, 40))
def test_dealing_changes_no_mean_and_no_order(values: list[int], parts: int) -> None:
    found = dealt(sorted(values), parts)
    assert len(found) == parts
    assert found == pytest.approx(sorted(found))
    assert sum(found) / parts == pytest.approx(sum(values) / len(values))
    if parts == len(values):
        assert found == pytest.approx(sorted(values))


def test_a_step_that_the_recorder_did_not_number_gets_what_is_usual() -> None:
    facts = told("ppprr", [5, 0, 10, 1, 1], Cost(op_ns=1.0, fault_ns=1000.0))
    assert refaults_ns(facts, [99]).tolist() == [4000]


def test_a_recording_of_an_earlier_version_tells_what_a_usual_step_was_spared() -> None:
    facts = told("ppprr", [5, 0, 9, 1, 1], Cost(op_ns=1.0, refault_ns=700))
    assert refaults_ns(facts, [3, 4]).tolist() == [700, 700]
    assert refaults_ns(Sidecar(records=[], truncated=False), [3]).tolist() == [0]


def two_steps(document: Callable[..., Any], folder: Path, *records: Any) -> Graph:
    """Steps of 100 us, in each an mm of 30 us and an add of 10; plain ones have 20 faults more than
    the first, and 32 more than the second."""
    d = document()
    for begin in (0, 100):
        d.op("aten::mm", begin, 30).op("aten::add", begin + 50, 10)
    trace = read(Source(d.save(folder / "rank0.json")))
    run = Counts(run_ns=40 * US)
    steps = [
        Step(index=n, begin_ns=at * US, end_ns=(at + 100) * US, mode=mode, faults=f, counts=run)
        for n, at, mode, f in (
            (0, -300, Mode.PLAIN, 20),
            (1, -200, Mode.PLAIN, 40),
            (2, 0, Mode.RECORDED, 0),
            (3, 100, Mode.RECORDED, 8),
        )
    ]
    facts = Sidecar(records=[*steps, Cost(op_ns=0.0, fault_ns=1000.0), *records], truncated=False)
    return build([trace], {0: facts})


def test_faults_lie_in_the_operators_of_their_own_step(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    graph = two_steps(document, tmp_path)
    took = [op.dur_ns for op in graph if op.name == "aten::mm"]
    assert took == [45_000, 54_000]  # three quarters of 20 and of 32 us more
    assert replay(graph).step_ns == 252 * US  # of both


@pytest.mark.parametrize(("threads", "wait_us"), [(1, 10), (2, 15)])
def test_who_shares_cores_waits_longer_by_what_plain_steps_run_more(
    document: Callable[..., Any], tmp_path: Path, threads: int, wait_us: float
) -> None:
    """It waited 10 us in the first step, in which it ran 40; with its faults it runs 60."""
    delay = CoreTime(thread=1, begin_ns=0, end_ns=100 * US, run_ns=40 * US, delay_ns=10 * US)
    host = RecordedHost(rank=0, world_size=1, main_thread=1, cores=1, threads=threads)
    graph = two_steps(document, tmp_path, host, delay)
    waits = graph.ops.dur_ns[graph.ops.kind == OpKind.CORE_WAIT]
    assert waits.sum() == wait_us * US
