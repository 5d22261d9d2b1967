"""The programs that ship, by name, at a size: what `paceline weave` offers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from paceline.graph import DType
from paceline.weave.layout import Group
from paceline.weave.program import Program
from paceline.weave.programs.adam import adam, adamw
from paceline.weave.programs.lamb import lamb
from paceline.weave.programs.megatron import mlp, self_attention
from paceline.weave.programs.pipeline import hand_over
from paceline.weave.programs.sgd import sgd
from paceline.weave.rules import WeaveError


@dataclass(frozen=True)
class ProgramSize:
    """Elements of an optimizer's vector; rows and hidden width of a transformer block."""

    elements: int = 4_000_000
    rows: int = 2048
    hidden: int = 512


@dataclass(frozen=True)
class ShippedProgram:
    """One program: what it does, and how it is made for a number of ranks."""

    about: str
    make: Callable[[ProgramSize, Group], Program]


SHIPPED: Mapping[str, ShippedProgram] = {
    "adam": ShippedProgram("Adam on averaged gradients", lambda s, g: adam(s.elements, g)),
    "adamw": ShippedProgram("Adam with decoupled decay", lambda s, g: adamw(s.elements, g)),
    "clipped-adam": ShippedProgram(
        "Adam after clipping by norm", lambda s, g: adam(s.elements, g, max_norm=1.0)
    ),
    "sgd": ShippedProgram(
        "SGD with momentum on averaged gradients", lambda s, g: sgd(s.elements, g, momentum=0.9)
    ),
    "lamb": ShippedProgram(
        "LAMB on averaged gradients, one tensor", lambda s, g: lamb((s.elements,), g)
    ),
    "self-attention": ShippedProgram(
        "output projection, AllReduce, bias, dropout, residual",
        lambda s, g: self_attention(s.rows, s.hidden, g),
    ),
    "mlp": ShippedProgram(
        "second product, AllReduce, bias, dropout, residual",
        lambda s, g: mlp(s.rows, s.hidden, g),
    ),
    "hand-over": ShippedProgram(
        "a block's sum sent to the next pipeline stage", lambda s, g: _between_stages(s, g)
    ),
}


def shipped(name: str) -> ShippedProgram:
    """The program of that name."""
    if name in SHIPPED:
        return SHIPPED[name]
    near = get_close_matches(name, SHIPPED, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    raise WeaveError(f"no program {name!r} ships; {meant}There are {', '.join(SHIPPED)}")


def _between_stages(size: ProgramSize, group: Group) -> Program:
    """The first half of the ranks is one stage, the second half the next."""
    if group.size % 2:
        raise WeaveError(
            f"hand-over needs an even number of workers, half of them a stage; got {group.size}"
        )
    half = group.size // 2
    here, there = Group(group.ranks[:half], "stage 0"), Group(group.ranks[half:], "stage 1")
    return hand_over(size.rows, size.hidden, here, there, dtype=DType.FLOAT32)
