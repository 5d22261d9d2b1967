"""BPF instructions as data: no compiler is needed where a program is this small.

A program is a list of instructions and labels; `assembled` gives the bytes that the kernel loads.
Registers are numbers: 0 is the result, 1 to 5 the arguments of a call, 6 to 9 outlive calls, 10 is
the end of a stack of 512 bytes.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from paceline.wire.errors import WireError


class Alu(IntEnum):
    """On 64 bits."""

    ADD = 0x07
    SUB = 0x17
    MUL = 0x27
    AND = 0x57
    LEFT = 0x67
    RIGHT = 0x77
    MOVE = 0xB7


class Jump(IntEnum):
    ALWAYS = 0x05
    EQUAL = 0x15
    ABOVE = 0x25  # unsigned >
    NOT_EQUAL = 0x55


class Size(IntEnum):
    WORD = 0x00
    BYTE = 0x10
    DOUBLE = 0x18


_FROM_REGISTER = 0x08
_EXIT, _CALL, _LOAD, _STORE, _ATOMIC, _LOAD_64 = 0x95, 0x85, 0x61, 0x63, 0xDB, 0x18
_ATOMIC_ADD, _ATOMIC_FETCH_ADD, _COMPARE_AND_EXCHANGE = 0x00, 0x01, 0xF1
_MAP_VALUE = 2  # a 64-bit constant that means an address inside a map's value


@dataclass(frozen=True)
class Label:
    """A place that jumps name."""

    name: str


@dataclass(frozen=True)
class Instruction:
    op: int
    to: int = 0
    source: int = 0
    offset: int = 0
    constant: int = 0
    target: str = ""  # of a jump
    second: int | None = None  # the other half of a 64-bit constant

    @property
    def slots(self) -> int:
        return 1 if self.second is None else 2


Line = Instruction | Label


def alu(op: Alu, to: int, *, register: int | None = None, constant: int = 0) -> Instruction:
    if register is None:
        return Instruction(op, to, constant=constant)
    return Instruction(op | _FROM_REGISTER, to, register)


def jump(
    op: Jump, target: str, left: int = 0, *, register: int | None = None, constant: int = 0
) -> Instruction:
    if register is None:
        return Instruction(op, left, constant=constant, target=target)
    return Instruction(op | _FROM_REGISTER, left, register, target=target)


def load(size: Size, to: int, base: int, offset: int) -> Instruction:
    return Instruction(_LOAD | size, to, base, offset)


def store(size: Size, base: int, offset: int, register: int) -> Instruction:
    return Instruction(_STORE | size, base, register, offset)


def atomic_add(base: int, offset: int, register: int) -> Instruction:
    return Instruction(_ATOMIC, base, register, offset, _ATOMIC_ADD)


def atomic_fetch_add(base: int, offset: int, register: int) -> Instruction:
    """The same; `register` is then what was there before."""
    return Instruction(_ATOMIC, base, register, offset, _ATOMIC_FETCH_ADD)


def compare_and_exchange(base: int, offset: int, register: int) -> Instruction:
    """Puts `register` in place of what register 0 expects there; register 0 is what was there."""
    return Instruction(_ATOMIC, base, register, offset, _COMPARE_AND_EXCHANGE)


def map_value(to: int, descriptor: int) -> Instruction:
    """The address of an array map's only value."""
    return Instruction(_LOAD_64, to, _MAP_VALUE, constant=descriptor, second=0)


def call(helper: int) -> Instruction:
    return Instruction(_CALL, constant=helper)


def leave() -> Instruction:
    return Instruction(_EXIT)


def assembled(lines: Sequence[Line]) -> bytes:
    places = _places(lines)
    made, here = [], 0
    for line in lines:
        if isinstance(line, Label):
            continue
        here += line.slots
        offset = places[line.target] - here if line.target else line.offset
        made.append(_encoded(line, offset))
    return b"".join(made)


def _places(lines: Sequence[Line]) -> dict[str, int]:
    places: dict[str, int] = {}
    here = 0
    for line in lines:
        if isinstance(line, Instruction):
            here += line.slots
        elif line.name in places:
            raise WireError(f"label {line.name} stands twice in a program")
        else:
            places[line.name] = here
    wanted = {line.target for line in lines if isinstance(line, Instruction) and line.target}
    if missing := wanted - places.keys():
        raise WireError(f"a program jumps to {sorted(missing)}, which it does not have")
    return places


def _encoded(line: Instruction, offset: int) -> bytes:
    first = _half(line.op, line.source << 4 | line.to, offset, line.constant)
    return first if line.second is None else first + _half(0, 0, 0, line.second)


def _half(op: int, registers: int, offset: int, constant: int) -> bytes:
    return struct.pack("<BBhI", op, registers, offset, constant & 0xFFFFFFFF)
