"""Triton kernels for a fused group of vectors: their sources, and the numbers to pass them.

A group without reductions is one kernel. One with norms (LAMB, clipping) is a kernel a phase: each
leaves one partial a block, which the host joins over blocks and ranks into the tables that the
next one reads.
"""

from paceline.weave import ops
from paceline.weave.cpu.phases import Domain, ElementPhase, Phases
from paceline.weave.cpu.slots import launch_programs
from paceline.weave.gpu.writer import EMIT, Source, Writer
from paceline.weave.layout import Sliced
from paceline.weave.program import FusedGroup, Program, Statement


def generate(group: FusedGroup) -> tuple[Source, ...]:
    """A kernel a phase, or a `WeaveError` that names what no block can compute alone."""
    form = phases_of(group)
    if form is None:
        return (Writer(group).source(),)
    return tuple(_PhaseWriter(group, form, phase).source() for phase in form.phases)


def phases_of(group: FusedGroup) -> Phases | None:
    """The loops of a group that reduces over elements; None where there is but one."""
    if not any(isinstance(s.op, ops.Reduce) for s in group.body):
        return None
    at = [launch.name for launch in group.program.launches()].index(group.name)
    return Phases.of(launch_programs(group.program)[at])


def host_numbers(program: Program) -> tuple[Statement, ...]:
    """Arithmetic on numbers, which the host does once a launch."""
    late: set[str] = set()  # what a reduction gives, and what follows from it
    for statement in program:
        if isinstance(statement.op, ops.Reduce) or late.intersection(statement.args):
            late.add(statement.name)
    return tuple(
        s
        for s in program
        if s.type.is_scalar and not isinstance(s.op, ops.Input) and s.name not in late
    )


class _PhaseWriter(Writer):
    """One phase of a group with reductions: what earlier phases stored is loaded again."""

    def __init__(self, group: FusedGroup, form: Phases, phase: ElementPhase) -> None:
        self._form, self._phase = form, phase
        super().__init__(group)

    def write(self) -> None:
        for statement in self.elements():
            if isinstance(statement.op, ops.Update):
                self.lines.append(f"{statement.name} = {self.read(statement.args[1])}")
            else:
                EMIT[type(statement.op)](self, statement)
        for reduction in self._phase.reductions:
            self._reduce(reduction)
        for update in self._phase.updates:
            self.update(update)

    def elements(self) -> list[Statement]:
        return list(self._phase.statements)

    def _reduce(self, statement: Statement) -> None:
        """This block's partial; the host folds blocks and ranks."""
        assert isinstance(statement.op, ops.Reduce)
        value, (start, fold) = self.read(statement.args[0]), _FOLD[statement.op.kind]
        self.parts[statement.name] = None
        self.lines += [
            f"whole = tl.where(inside, {value}, {start})",
            f"tl.store({statement.name}_parts + block, {fold})",
        ]

    def read(self, name: str) -> str:
        """Also: numbers and segments of earlier phases from tables, stored values from memory."""
        if name in self._phase.reloads and not self.known(name):
            target = self._phase.reloads[name]
            sliced = isinstance(self.program[target].type.layout, Sliced)
            self.load(name, target, "local" if sliced else "at")
        elif self._form.levels[name] and self._form.domains[name] is not Domain.ELEMENT:
            self.tables[name] = None
            segment = " + segment" if self._form.domains[name] is Domain.SEGMENT else ""
            return f"tl.load({name}_table{segment})"
        return name if name in self._phase.reloads else super().read(name)


_FOLD = {
    ops.ReduceKind.SUM: ("0.0", "tl.sum(whole)"),
    ops.ReduceKind.SUM_SQUARES: ("0.0", "tl.sum(whole * whole)"),
    ops.ReduceKind.MAX: ("-float('inf')", "tl.max(whole)"),
    ops.ReduceKind.MIN: ("float('inf')", "tl.min(whole)"),
}
