"""The switch's rule, its codes, and the queues of the user-space switch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.wire.errors import WireError
from paceline.wire.switch import Code, Rule, Verdict, code_of, is_markable, tos
from paceline.wire.switch.ports import FRAME_BYTES, Datagram, SwitchQueue

RULE = Rule.graded(bits_per_s=8_000_000, buffer_bytes=10_000)
codes = st.builds(Code, st.integers(1, 7), st.integers(0, 7))


def datagram(code: Code | None, size: int, *, markable: bool = False) -> Datagram:
    byte = (0b10 if markable else 0) if code is None else tos(code, markable=markable)
    return Datagram(bytes(size - FRAME_BYTES), byte, 0)


@given(codes, st.booleans())
def test_a_tos_byte_says_what_it_was_made_of(code: Code, markable: bool) -> None:
    assert code_of(tos(code, markable=markable)) == code
    assert is_markable(tos(code, markable=markable)) is markable


def test_a_packet_that_says_nothing_has_no_code() -> None:
    assert code_of(0) is code_of(0b11) is None
    with pytest.raises(WireError, match="means a plain packet"):
        Code(0, 0)


@given(st.integers(0, 20_000), st.integers(0, 7), st.integers(0, 7))
def test_what_is_more_important_is_never_dropped_first(after: int, low: int, high: int) -> None:
    low, high = sorted((low, high))
    drops = [
        RULE.verdict(after, Code(1, importance), markable=False) is Verdict.DROP
        for importance in (low, high)
    ]
    assert drops[0] or not drops[1]


def test_limits_rise_from_a_share_of_the_buffer_to_all_of_it() -> None:
    assert (RULE.drop_bytes[0], RULE.drop_bytes[-1]) == (2_500, 10_000)
    with pytest.raises(WireError, match="do not fall"):
        Rule(8_000, 100, (9, 8, 8, 8, 8, 8, 8, 8), 0)


def test_a_queue_marks_what_can_be_marked_and_drops_the_rest_sooner() -> None:
    queue = SwitchQueue(RULE)
    unimportant, important = Code(2, 0), Code(2, 7)
    assert queue.put(datagram(important, 1_000, markable=True)) is Verdict.PASS
    assert queue.put(datagram(unimportant, 1_500)) is Verdict.PASS
    assert queue.put(datagram(unimportant, 100)) is Verdict.DROP
    assert queue.put(datagram(important, 1_000, markable=True)) is Verdict.MARK


def test_a_full_lower_priority_neither_drops_nor_marks_a_higher_one() -> None:
    queue = SwitchQueue(RULE)
    while queue.put(datagram(None, 1_000)) is not Verdict.DROP:
        pass
    assert queue.put(datagram(Code(0, 1), 1_000, markable=True)) is Verdict.PASS


@given(st.lists(st.tuples(codes, st.integers(FRAME_BYTES, 3_000)), max_size=40))
def test_what_a_queue_took_it_gives_in_order_of_priority(
    offered: list[tuple[Code, int]],
) -> None:
    queue, taken = SwitchQueue(RULE), []
    passed = [
        (code.priority, size)
        for code, size in offered
        if queue.put(datagram(code, size)) is not Verdict.DROP
    ]
    now = 0
    while (due := queue.due_ns()) is not None:
        now = max(now, due)
        one = queue.take(now)
        assert one is not None
        code = code_of(one.tos)
        assert code is not None
        taken.append((code.priority, one.size_bytes))
    assert taken == sorted(passed, key=lambda pair: pair[0])
    assert queue.backlog_bytes == 0


def test_a_port_sends_at_its_rate() -> None:
    queue, now = SwitchQueue(RULE), 10**9
    for _ in range(9):
        queue.put(datagram(None, 1_000))
    sent = 0
    while queue.due_ns() is not None:
        now = max(now, queue.due_ns() or 0)
        queue.take(now)
        sent += 1
    assert sent == 9
    # Eight packets of 1 ms each follow the first; a millisecond may be caught up with.
    assert 10**9 + 7_000_000 <= now <= 10**9 + 8_000_000
