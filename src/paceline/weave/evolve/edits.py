"""Genomes: lists of edits on a program as written, and the variant that they make.

A `Rewrite` edits the schedule (a transformation); a `Setting` edits the loops of the generated
kernel (chunk, unroll, non-temporal stores, prefetch, store order: whatever settings the back end
has). An edit that does not apply makes the genome invalid, with the refusal as its reason.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from paceline.weave import ops
from paceline.weave.backend import Backend, Tunables
from paceline.weave.program import Program
from paceline.weave.rules import WeaveError
from paceline.weave.schedules import fuse_all, largest_sum, overlap_product, slice_all
from paceline.weave.transforms import Refusal, SplitInto, reorder, split


class RewriteKind(Enum):
    """Schedule edits."""

    SPLIT = "split"
    SPLIT_ROOTED = "split to a root"
    REORDER = "reorder"
    SLICE = "slice"
    FUSE = "fuse"
    OVERLAP = "overlap"


@dataclass(frozen=True)
class Rewrite:
    """Apply one transformation where it fits best."""

    kind: RewriteKind

    def __str__(self) -> str:
        return self.kind.value


@dataclass(frozen=True)
class Setting:
    """Give one of the back end's settings a value."""

    name: str
    value: int | float | str | bool

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


Edit = Rewrite | Setting
Genome = tuple[Edit, ...]


@dataclass(frozen=True)
class Variant:
    """What a genome makes: the program to run and the settings to run it with."""

    program: Program
    tunables: Tunables = field(default_factory=dict)


def variant(written: Program, genome: Genome, runner: Backend) -> Variant | Refusal:
    """Apply the edits in order; the first gate (types, the rules of transformations, and what the
    back end refuses) is passed on the way."""
    program, settings = written, {}
    for edit in genome:
        if isinstance(edit, Setting):
            settings[edit.name] = edit.value
            continue
        made = _rewritten(program, edit)
        if isinstance(made, Refusal):
            return made
        program = made
    if reason := runner.capabilities() or runner.refusal(program):
        return Refusal(runner.name, reason)
    defaults = runner.tunables(program)[0]
    return Variant(program, {**defaults, **settings})


def pool(written: Program, runner: Backend) -> tuple[Edit, ...]:
    """Every edit that a mutation may draw."""
    rewrites = [Rewrite(kind) for kind in RewriteKind]
    values = settings_of(written, runner)
    return (*rewrites, *(Setting(name, v) for name, found in values.items() for v in found))


def settings_of(
    written: Program, runner: Backend
) -> Mapping[str, tuple[int | float | str | bool, ...]]:
    """The values of each setting, over every program that edits can make of this one."""
    found: dict[str, dict[int | float | str | bool, None]] = {}
    for program in _reachable(written):
        if runner.refusal(program) is None:
            for settings in runner.tunables(program):
                for name, value in settings.items():
                    found.setdefault(name, {})[value] = None
    return {name: tuple(values) for name, values in found.items()}


def _reachable(written: Program) -> list[Program]:
    """A few typical programs: as written, overlapped, and each stage towards one fused kernel."""
    made = [written]
    for kinds in (_TO_FUSED, (RewriteKind.OVERLAP,)):
        program = written
        for kind in kinds:
            step = _rewritten(program, Rewrite(kind))
            program = program if isinstance(step, Refusal) else step
            made.append(program)
    return made


_TO_FUSED = (RewriteKind.SPLIT, RewriteKind.REORDER, RewriteKind.SLICE, RewriteKind.FUSE)


def _rewritten(program: Program, edit: Rewrite) -> Program | Refusal:
    try:
        return _REWRITES[edit.kind](program)
    except WeaveError as error:
        return Refusal(edit.kind.value, str(error))


def _reordered(program: Program) -> Program | Refusal:
    """Past the AllGather of the largest tensor."""
    gathers = program.find(ops.AllGather)
    if not gathers:
        raise WeaveError(f"{program.name} has no AllGather; split first")
    return reorder(program, max(gathers, key=lambda name: program[name].type.size))


def _split(program: Program) -> Program | Refusal:
    return split(program, largest_sum(program))


def _rooted(program: Program) -> Program | Refusal:
    return split(program, largest_sum(program), SplitInto.REDUCE_BROADCAST)


_REWRITES: dict[RewriteKind, Callable[[Program], Program | Refusal]] = {
    RewriteKind.SPLIT: _split,
    RewriteKind.SPLIT_ROOTED: _rooted,
    RewriteKind.REORDER: _reordered,
    RewriteKind.SLICE: slice_all,
    RewriteKind.FUSE: fuse_all,
    RewriteKind.OVERLAP: overlap_product,
}
