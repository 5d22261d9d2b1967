"""The kernel's switch: its programs, run by the kernel on single frames, keep the rule."""

import os
import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest

from paceline.wire.errors import WireError
from paceline.wire.switch import Code, Rule, Verdict, tos
from paceline.wire.switch.kernel import bpf
from paceline.wire.switch.kernel.assembler import Alu, Jump, Label, alu, assembled, jump, leave
from paceline.wire.switch.kernel.counts import Cell, cells
from paceline.wire.switch.kernel.layout import VALUE_BYTES, first_value
from paceline.wire.switch.kernel.netlink import Hook, attach
from paceline.wire.switch.kernel.programs import spray_program, switch_program

SLOW = Rule.graded(bits_per_s=8_000, buffer_bytes=100_000)
"""At a byte per millisecond nothing drains while a test runs."""
SHOT, OK = 2, 0


def frame(byte: int, size: int) -> bytes:
    """An IPv4 packet of no protocol in particular."""
    ip = struct.pack(
        "!BBHHHBBH4s4s", 0x45, byte, size - 14, 0, 0, 64, 17, 0, b"\n\0\0\1", b"\n\0\0\2"
    )
    return bytes(12) + b"\x08\x00" + ip + bytes(size - 14 - len(ip))


@pytest.fixture
def switch() -> Iterator[tuple[int, int]]:
    """A program and its map."""
    made = bpf.make_map("pl_test", first_value(SLOW))
    program = bpf.load_program(assembled(switch_program(SLOW, made)))
    yield program, made
    os.close(program)
    os.close(made)


def test_a_program_that_jumps_nowhere_is_not_assembled() -> None:
    with pytest.raises(WireError, match="jumps to"):
        assembled([jump(Jump.ALWAYS, "away"), leave()])
    with pytest.raises(WireError, match="stands twice"):
        assembled([Label("a"), Label("a"), leave()])


def test_jumps_count_slots_from_the_next_instruction() -> None:
    code = assembled(
        [jump(Jump.ALWAYS, "end"), alu(Alu.MOVE, 0, constant=1), Label("end"), leave()]
    )
    assert struct.unpack_from("<h", code, 2) == (1,)


@pytest.mark.needs("root", "bpf")
def test_the_program_gives_the_rules_verdicts(switch: tuple[int, int]) -> None:
    program, _ = switch
    backlog = dict.fromkeys(range(8), 0)
    sizes = (1_400, 900, 60, 1_514)
    for turn in range(400):
        code = Code(1 + turn % 5, turn * 7 % 8)
        markable, size = turn % 3 == 0, sizes[turn % 4]
        after = backlog[code.priority] + size
        if any(abs(after - limit) < 200 for limit in (*SLOW.drop_bytes, SLOW.mark_bytes)):
            continue  # time passes: what is this close may go either way
        found = bpf.test_run(program, frame(tos(code, markable=markable), size))
        expected = SLOW.verdict(after, code, markable=markable)
        assert (found.verdict == SHOT) is (expected is Verdict.DROP)
        if expected is Verdict.DROP:
            continue
        assert (found.frame[15] & 3 == 3) is (expected is Verdict.MARK)
        assert found.priority == 0x10010 + code.priority
        for priority in range(code.priority, 8):
            backlog[priority] += size


@pytest.mark.needs("root", "bpf")
def test_plain_packets_are_of_the_last_class_and_dropped_by_a_full_buffer_alone(
    switch: tuple[int, int],
) -> None:
    program, made = switch
    found = [bpf.test_run(program, frame(0, 1_500)) for _ in range(70)]
    assert {one.priority for one in found[:60]} == {0x10017}
    assert [one.verdict for one in found[:66]] == [OK] * 66
    assert [one.verdict for one in found[67:]] == [SHOT] * 3
    (cell,) = cells(bpf.read_map(made, VALUE_BYTES))
    assert cell == Cell(None, cell.passed, 0, cell.dropped)
    assert cell.passed + cell.dropped == 70


@pytest.mark.needs("root", "bpf")
def test_what_is_not_ipv4_passes_first(switch: tuple[int, int]) -> None:
    program, made = switch
    arp = bytes(12) + b"\x08\x06" + bytes(50)
    found = bpf.test_run(program, arp)
    assert (found.verdict, found.priority) == (OK, 0x10010)
    assert cells(bpf.read_map(made, VALUE_BYTES)) == ()


@pytest.mark.needs("root", "bpf")
def test_a_rule_that_never_marks_does_not_mark() -> None:
    rule = replace(SLOW, mark_bytes=0)
    made = bpf.make_map("pl_test", first_value(rule))
    program = bpf.load_program(assembled(switch_program(rule, made)))
    byte = tos(Code(1, 7), markable=True)
    assert {bpf.test_run(program, frame(byte, 1_500)).frame[15] for _ in range(50)} == {byte}


@pytest.mark.needs("root", "bpf")
def test_the_kernel_takes_the_spraying_program() -> None:
    made = bpf.make_map("pl_test", first_value(SLOW))
    program = bpf.load_program(assembled(spray_program(made)))
    assert bpf.test_run(program, frame(tos(Code(1, 7), markable=True), 100)).verdict == OK


@pytest.mark.needs("root", "bpf")
def test_a_refused_program_comes_with_the_verifiers_words() -> None:
    with pytest.raises(WireError, match="R0 !read_ok"):
        bpf.load_program(assembled([leave()]))


@pytest.mark.needs("linux")
def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(WireError, match="no network device 'nowhere'"):
        attach("nowhere", Hook.EGRESS, 0, "x")
