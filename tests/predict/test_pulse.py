"""Recorded work at the pulse that the machine has at another moment."""

from dataclasses import replace

import pytest

from paceline.graph import Facts, Graph, GraphBuilder, LaneKind, OpKind
from paceline.machine import Pulse
from paceline.measure import Calibration, Sweep
from paceline.predict import Question, predict

RECORDED = Pulse(1, 100, 1000, 10)


def job(pulse: Pulse | None = RECORDED) -> Graph:
    """100 ns of work on a thread, 60 on a stream behind it, and then nothing for 40."""
    b = GraphBuilder(facts=Facts(pulse=pulse))
    work = b.op("work", b.lane(), 100)
    kernel = b.op("kernel", b.lane(name="stream", kind=LaneKind.STREAM), 60, after=[work])
    b.op("rest", b.lane(name="other"), 40, kind=OpKind.MARKER, after=[kernel])
    return b.build()


def at(pulse: Pulse | None, graph: Graph | None = None) -> tuple[int, int, int]:
    found = predict(graph or job(), question=Question(pulse=pulse))
    return found.step_ns, found.low_ns, found.high_ns


def test_work_of_threads_takes_longer_by_the_pulse_and_kernels_do_not() -> None:
    assert at(None)[0] == 200
    assert at(replace(RECORDED, arithmetic_ns=120, memory_ns=1200))[0] == 220


def test_how_much_of_the_work_is_memory_is_uncertain_and_said() -> None:
    """A twentieth of it is taken to be, between none and a fifth."""
    before, after = at(None), at(replace(RECORDED, memory_ns=2000))
    assert after[0] == 205
    assert after[1] <= before[1] * 205 / 200
    assert after[2] >= before[2] + 100 * 0.2


def test_a_prediction_names_the_pulse_for_which_it_holds() -> None:
    wanted = replace(RECORDED, arithmetic_ns=90)
    assert predict(job()).pulse == RECORDED
    assert predict(job(), question=Question(pulse=wanted)).pulse == wanted


@pytest.mark.parametrize(
    ("measured_at", "told"),
    [
        (RECORDED, ""),
        (replace(RECORDED, arithmetic_ns=92), ""),
        (replace(RECORDED, arithmetic_ns=80), "arithmetic takes +25%, a copy through memory +0%"),
        (replace(RECORDED, memory_ns=100), "arithmetic takes +0%, a copy through memory +900%"),
        (None, ""),
    ],
)
def test_a_calibration_of_another_speed_is_told(measured_at: Pulse | None, told: str) -> None:
    line = Sweep((1e6, 2e6, 4e6), (1e6, 2e6, 4e6))
    made = Calibration("here", 2, 2, line, line, line, line, None, pulse=measured_at)
    found = predict(job(), question=Question(calibration=made, here="here"))
    doubts = [line for line in found.rests_on if "may not hold" in line]
    assert [told in line for line in doubts] == [True] * bool(told)


@pytest.mark.parametrize("graph", [job(None), job(Pulse(1, 0, 0, 0))])
def test_a_recording_without_a_pulse_keeps_its_work_as_it_was(graph: Graph) -> None:
    assert at(Pulse(2, 500, 500, 5), graph)[0] == 200
