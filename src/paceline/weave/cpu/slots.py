"""What a launch sees: a program of its own, and where tensors lie in shared memory."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from paceline.weave import ops
from paceline.weave.layout import Sliced, TensorType
from paceline.weave.program import FusedGroup, Program, Statement

_PAGE = 1024  # elements of 4 bytes


@dataclass(frozen=True)
class Slot:
    """A tensor in shared memory: `copies` arrays, from pointer `first` on."""

    name: str
    first: int
    copies: int  # one a rank, or 1 where all ranks share it
    size: int

    @property
    def stride(self) -> int:
        """Elements from one copy to the next: whole pages, so that each copy is aligned."""
        return -(-self.size // _PAGE) * _PAGE

    @property
    def size_bytes(self) -> int:
        return 4 * self.stride * self.copies


def launch_programs(program: Program) -> tuple[Program, ...]:
    """Each launch as a program: what earlier launches leave behind are inputs to it."""
    return tuple(_alone(launch) for launch in program.launches())


def _alone(launch: FusedGroup) -> Program:
    inputs = tuple(
        s if s.is_source else replace(s, op=ops.Input(_role(s.type)), args=())
        for s in launch.inputs
    )
    outputs = (*launch.outputs, *(u.name for u in launch.updates))
    return Program(launch.name, (*inputs, *launch.body), outputs)


def _role(kind: TensorType) -> ops.Role:
    return ops.Role.SCALAR if kind.is_scalar else ops.Role.DATA


def place(
    programs: tuple[Program, ...], ranks: int, same: Mapping[str, str] | None = None
) -> dict[str, Slot]:
    """A slot for every tensor that a launch reads from memory or leaves there.

    The result of an Update is its target: both names are the same memory. So are a result and the
    input that `same` names for it.
    """
    slots: dict[str, Slot] = {}
    for program in programs:
        for statement in (*program.inputs, *(program[n] for n in program.returns)):
            if statement.type.is_scalar or statement.name in slots:
                continue
            if same and statement.name in same:
                slots[statement.name] = slots[same[statement.name]]
                continue
            slots[statement.name] = _slot(statement, slots, ranks)
        for update in program.updates:
            slots[update.name] = slots[update.args[0]]
    return slots


def _slot(statement: Statement, slots: dict[str, Slot], ranks: int) -> Slot:
    copies = 1 if isinstance(statement.type.layout, Sliced) else ranks
    first = max((s.first + s.copies for s in slots.values()), default=0)
    return Slot(statement.name, first, copies, statement.type.size)
