"""A transformation returns a new program, or a `Refusal` that says why there is none."""

from collections.abc import Callable
from dataclasses import dataclass

from paceline.weave.program import Program
from paceline.weave.rules import WeaveError


@dataclass(frozen=True)
class Refusal:
    """Why a transformation does not apply; false, so that `if not step:` reads well."""

    transformation: str
    reason: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"{self.transformation} refused: {self.reason}"


def attempt(name: str, make: Callable[[], Program]) -> Program | Refusal:
    """The program that `make` returns; what breaks the rules on the way becomes the reason."""
    try:
        return make()
    except WeaveError as error:
        return Refusal(name, str(error))


def applied(result: Program | Refusal) -> Program:
    """The program, or the refusal raised: for schedules that must apply."""
    if isinstance(result, Refusal):
        raise WeaveError(str(result))
    return result


def loose(program: Program, name: str) -> None:
    """Raise where a statement is already part of a kernel or an overlap."""
    for kernel in program.kernels:
        if name in kernel.members:
            raise WeaveError(f"{name} is fused into {kernel.name}; transform it before fusing")
    for overlap in program.overlaps:
        if name in (overlap.producer, overlap.collective):
            raise WeaveError(f"{name} is overlapped; transform it before overlapping")
