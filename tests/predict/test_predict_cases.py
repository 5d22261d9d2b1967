"""A prediction from a recording: the typical step as it runs without instruments, and changed."""

import pytest

from paceline.cost import SPREAD
from paceline.graph import Basis, DepKind, Graph, GraphBuilder, LaneKind, OpKind, Phase
from paceline.graph.facts import Facts
from paceline.graph.synthetic import Ring, ring
from paceline.measure import Calibration, Overlap, Sweep
from paceline.predict import predict
from paceline.predict.anchor import anchored


def recording(plain_step_ns: int = 0, plain_run_ns: int = 0, forward_ns: int = 100) -> Graph:
    """Three equal steps of one worker: forward, communication beside 20 ns of backward, update."""
    b = GraphBuilder(facts=Facts(plain_step_ns=plain_step_ns, plain_run_ns=plain_run_ns))
    thread, link = b.lane(), b.lane(name="gloo", kind=LaneKind.COMM_THREAD)
    for step in range(3):
        ready = b.op("forward", thread, forward_ns, phase=Phase.FORWARD, step=step)
        sent = b.op("send", link, 50, kind=OpKind.TRANSFER, after=[ready], step=step)
        b.op("backward", thread, 20, phase=Phase.BACKWARD, step=step)
        b.op("update", thread, 30, phase=Phase.UPDATE, step=step, after=[sent], dep=DepKind.WAIT)
    return b.build()


def test_without_plain_steps_the_recorded_length_stands() -> None:
    assert predict(recording()).step_ns == 180


def test_work_is_scaled_until_the_step_takes_what_plain_steps_took() -> None:
    # of 150 ns of work a fifth comes off at first, and what the shorter work hid no longer after it
    assert predict(recording(plain_step_ns=150)).step_ns == 150


@pytest.mark.parametrize(("plain_ns", "factor"), [(1, 0.6), (10_000, 1.2)])
def test_work_is_scaled_by_no_more_than_what_recording_can_explain(
    plain_ns: int, factor: float
) -> None:
    assert predict(recording(plain_step_ns=plain_ns)).step_ns == round(130 * factor) + 50


def test_the_classes_of_work_and_what_none_of_it_fills_make_up_the_step() -> None:
    found = predict(recording())
    assert found.by_class == {
        "forward": 100,
        "backward": 20,
        "update": 30,
        "data": 0,
        "communication": 50,
        "exposed": 30,
    }


def test_a_recorded_step_errs_by_what_recordings_do() -> None:
    found = predict(ring(Ring(ranks=2)))
    share = 1 + SPREAD[Basis.RECORDED]
    assert found.step_ns / found.low_ns == pytest.approx(share, rel=1e-3)
    assert found.high_ns / found.step_ns == pytest.approx(share, rel=1e-3)


def test_halving_forward_takes_half_of_it_off_the_step() -> None:
    changed = predict(recording(), ["scale(select='phase=forward', factor=0.5)"])
    assert changed.step_ns == 130


OVERLAPPING = Calibration(
    "here", 1, 1, *(Sweep((1, 2, 3), (1, 2, 3)),) * 3, None, Overlap(1.2, 1.1)
)  # fmt: skip


def test_carried_elsewhere_work_takes_what_the_threads_ran_in_plain_steps() -> None:
    graph = recording(plain_step_ns=150, plain_run_ns=135)  # of 150 ns recorded
    away = anchored(graph, elsewhere=True)
    assert away.ops.dur_ns[:4].tolist() == [90, 50, 18, 27]
