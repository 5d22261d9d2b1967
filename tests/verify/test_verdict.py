"""Verdicts: errors, intervals, and where the error comes from."""

from dataclasses import replace

from paceline.graph import GraphBuilder
from paceline.machine import Pulse, PulseMoved
from paceline.predict import Prediction
from paceline.replay import replay
from paceline.verify import Measured, Verdict
from paceline.verify.proof import without_placement

STEP = GraphBuilder()
STEP.op("work", STEP.lane(), 110)
GUESS = Prediction(
    step_ns=110,
    low_ns=100,
    high_ns=120,
    by_class={"forward": 30, "backward": 40, "update": 10, "exposed": 30, "communication": 50},
    rests_on=(),
    workers=2,
    timeline=replay(STEP.build()),
)
SEEN = Measured(
    steps_ns=(99, 100, 101, 100, 130),
    by_class={"forward": 30, "backward": 32, "update": 10, "exposed": 28, "communication": 50},
)


def test_the_error_is_predicted_over_the_measured_median() -> None:
    verdict = Verdict(GUESS, SEEN)
    assert verdict.error == 110 / 100 - 1
    assert verdict.within
    assert not Verdict(replace(GUESS, low_ns=101), SEEN).within


def test_what_the_machine_itself_did_is_told_apart_from_the_error() -> None:
    slower = replace(SEEN, steps_ns=(121,), pulse=Pulse(2, 110, 200, 5))
    guess = replace(GUESS, pulse=Pulse(1, 100, 200, 5))
    verdict = Verdict(guess, slower, at_pulse=replace(GUESS, step_ns=121))
    assert verdict.pulse_moved == PulseMoved(arithmetic=110 / 100 - 1, memory=0.0)
    assert verdict.error == 110 / 121 - 1
    assert verdict.error_at_pulse == 0.0


def test_without_a_pulse_nothing_is_said_of_the_machine() -> None:
    verdict = Verdict(GUESS, SEEN)
    assert verdict.pulse_moved is None
    assert verdict.error_at_pulse is None


def test_the_class_that_is_most_off_comes_first() -> None:
    first, second, *_ = Verdict(GUESS, SEEN).differences
    assert (first.name, first.error_ns) == ("backward", 8)
    assert (second.name, second.error_ns) == ("exposed", 2)


def test_the_spread_of_the_measured_steps_is_p10_to_p90() -> None:
    assert (SEEN.low_ns, SEEN.step_ns) == (99, 100)
    assert SEEN.high_ns > 101


def test_a_torchrun_command_is_placed_anew_by_the_lab() -> None:
    command = ["bin/torchrun", "--nproc-per-node", "2", "--nnodes=1", "--standalone", "a.py", "--x"]
    assert without_placement(command) == ["bin/torchrun", "a.py", "--x"]
    module = ["python", "-m", "torch.distributed.run"]
    assert without_placement([*module, *command[1:]]) == [*module, "a.py", "--x"]
    other = ["python", "a.py", "--nnodes", "2"]
    assert without_placement(other) == other
