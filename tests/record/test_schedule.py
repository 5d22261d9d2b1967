"""Which steps are recorded, and when recording may begin."""

import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.record.torch_schedule import MOST_WARMUP, Mode, RecordSchedule, agreed_start


def modes(schedule: RecordSchedule, steps: int) -> list[Mode]:
    return [schedule.mode(index) for index in range(steps)]


def test_a_recording_is_framed_by_plain_steps() -> None:
    found = modes(RecordSchedule(steps=2, plain=1, start=1), 11)
    assert [mode.value for mode in found] == [
        "warmup",
        "plain",
        "detail",
        "drain",
        "settle",
        "recorded",
        "recorded",
        "drain",
        "warmup",
        "plain",
        "done",
    ]


def test_in_turn_recorded_steps_come_in_stretches_with_plain_ones_behind_each() -> None:
    found = modes(RecordSchedule(steps=5, plain=3, start=0, turns=True), 14)
    told = "".join(mode.value[0] for mode in found)  # plain, detail, drain, settle, recorded, done
    assert told == "pppddsrrprrrpp"
    assert RecordSchedule(5, 3, 0, turns=True).mode(14) is Mode.DONE


def test_too_few_steps_to_take_turns_are_recorded_together() -> None:
    for steps, plain in ((3, 5), (10, 1), (10, 0)):
        apart, in_turn = (RecordSchedule(steps, plain, 0, turns=turns) for turns in (False, True))
        assert modes(in_turn, 40) == modes(apart, 40)


def test_nothing_but_warm_up_happens_before_the_ranks_agree() -> None:
    assert set(modes(RecordSchedule(steps=5, plain=5), 100)) == {Mode.WARMUP}


@settings(deadline=None, max_examples=50)
@given(
    steps=st.integers(1, 40),
    plain=st.integers(0, 20),
    start=st.integers(0, 30),
    turns=st.booleans(),
)
def test_exactly_the_wanted_number_of_steps_is_recorded(
    steps: int, plain: int, start: int, turns: bool
) -> None:
    found = modes(RecordSchedule(steps, plain, start, turns), 200)
    assert found.count(Mode.RECORDED) == steps
    assert found.count(Mode.PLAIN) == 2 * plain
    assert found[-1] is Mode.DONE


def test_a_single_process_begins_once_two_steps_took_alike() -> None:
    assert agreed_start(0, 3, [900, 500, 110], 0) is None
    assert agreed_start(0, 4, [900, 500, 110, 100], 0) == 4


def test_a_job_that_never_settles_is_recorded_all_the_same() -> None:
    wild = [100, 200] * (MOST_WARMUP // 2)
    assert agreed_start(0, 9, wild[:-2], 0) is None
    assert agreed_start(0, 20, wild, 0) == 20
