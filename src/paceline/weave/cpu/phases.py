"""From a fused group to phases: loops over all elements, with a join of all ranks between them.

An element's value may need a reduction over all elements (a norm). What needs no reduction is
phase 0; what needs the reductions that phase k accumulates is phase k + 1. A phase recomputes what
it needs from memory rather than store it: memory is the bottleneck, arithmetic is not. Values that
an earlier phase has stored by an Update are read back from there.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from paceline.graph import DType
from paceline.weave import ops
from paceline.weave.layout import Partial, Shape
from paceline.weave.program import Program, Statement
from paceline.weave.rules import WeaveError

_ELEMENTWISE = (
    ops.Unary,
    ops.Binary,
    ops.Ite,
    ops.MulAdd,
    ops.Dropout,
    ops.Slice,
    ops.AllReduce,
    ops.ReduceScatter,
    ops.AllGather,
    ops.Update,
    ops.Repeat,
)
_ROOTED = (ops.ReduceTo, ops.Broadcast)  # between them every rank reads the root's sum


class Domain(Enum):
    """What a value is a function of, once all ranks share memory."""

    NUMBER = "number"  # one for the whole run
    SEGMENT = "segment"  # one a segment of the flat vector
    ELEMENT = "element"  # one an element


@dataclass(frozen=True)
class ElementPhase:
    """A loop over the elements: statements in order, what it stores, what it accumulates."""

    statements: tuple[Statement, ...]  # computed for each element
    loads: tuple[str, ...]  # inputs read from memory, by name
    reloads: dict[str, str]  # value -> input in which an earlier phase's Update has left it
    updates: tuple[Statement, ...]
    outputs: tuple[str, ...]
    reductions: tuple[Statement, ...]


@dataclass(frozen=True)
class Phases:
    """A program as the CPU back end runs it."""

    program: Program
    size: int  # elements of the flat vector
    segments: tuple[int, ...]  # lengths; one segment where the program names none

    @staticmethod
    def of(program: Program) -> "Phases":
        """Raises WeaveError with the reason where the program has no such form."""
        if len(program.groups) != 1:
            raise WeaveError(f"{program.name} spans several groups; one host's ranks are one")
        for statement in program:
            _require(program, statement)
        domains = _domains(program)
        shape = _shape(program, domains)
        for statement in program:
            if domains[statement.name] is Domain.ELEMENT:
                _require_shape(statement, shape)
        segments = {s.op.segments for s in program if isinstance(s.op, ops.Reduce | ops.Repeat)}
        lengths = {tuple(x) for x in segments if x is not None}
        if len(lengths) > 1:
            raise WeaveError(f"{program.name} uses two different lists of segments")
        size = math.prod(shape)
        return Phases(program, size, lengths.pop() if lengths else (size,))

    @cached_property
    def domains(self) -> dict[str, Domain]:
        return _domains(self.program)

    @cached_property
    def levels(self) -> dict[str, int]:
        """First phase in which a statement's value can be computed."""
        found: dict[str, int] = {}
        for statement in self.program:
            level = max((found[a] for a in statement.args), default=0)
            found[statement.name] = level + isinstance(statement.op, ops.Reduce)
        return found

    @cached_property
    def phases(self) -> tuple[ElementPhase, ...]:
        at = {u.name: self.levels[u.args[1]] for u in self.program.updates}
        while (moved := self._postponed(at)) != at:
            at = moved
        return tuple(self._phase(k, at) for k in range(self.count))

    @property
    def count(self) -> int:
        return 1 + max(self.levels.values(), default=0)

    def _postponed(self, at: dict[str, int]) -> dict[str, int]:
        """No Update before the last phase that reads the old value of what it overwrites."""
        last = dict(at)
        for k in range(self.count):
            loads = set(self._phase(k, at).loads)
            for update in self.program.updates:
                if update.args[0] in loads:
                    last[update.name] = max(last[update.name], k)
        return last

    def _phase(self, k: int, at: dict[str, int]) -> ElementPhase:
        updates = tuple(u for u in self.program.updates if at[u.name] == k)
        reductions = tuple(
            s for s in self.program if isinstance(s.op, ops.Reduce) and self.levels[s.name] == k + 1
        )
        outputs = tuple(
            n
            for n in self.program.returns
            if self.domains[n] is Domain.ELEMENT and self.levels[n] == k
        )
        stored = self._stored_before(k, at)
        sinks = [u.args[1] for u in updates] + [r.args[0] for r in reductions] + list(outputs)
        needed = {n for sink in sinks for n in self._closure(sink, stored)}
        chosen = [s for s in self.program if s.name in needed]
        element = [
            s for s in chosen if self.domains[s.name] is Domain.ELEMENT and s.name not in stored
        ]
        return ElementPhase(
            statements=tuple(s for s in element if not s.is_source),
            loads=tuple(s.name for s in element if isinstance(s.op, ops.Input)),
            reloads={n: t for n, t in stored.items() if n in needed},
            updates=updates,
            outputs=outputs,
            reductions=reductions,
        )

    def _stored_before(self, k: int, at: dict[str, int]) -> dict[str, str]:
        """Values that Updates of earlier phases have left in memory, and where."""
        found: dict[str, str] = {}
        for update in self.program.updates:
            if at[update.name] < k:
                found |= dict.fromkeys((update.name, update.args[1]), update.args[0])
        return found

    def _closure(self, name: str, stored: dict[str, str]) -> Iterator[str]:
        """What must be computed or read for a value; stops at what is in memory."""
        seen, waiting = set(), [name]
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            if current not in stored and self.domains[current] is Domain.ELEMENT:
                waiting.extend(self.program[current].args)
        yield from seen


def _domains(program: Program) -> dict[str, Domain]:
    found: dict[str, Domain] = {}
    for statement in program:
        found[statement.name] = _domain(statement, {found[a] for a in statement.args})
    return found


def _domain(statement: Statement, args: set[Domain]) -> Domain:
    if isinstance(statement.op, ops.Reduce):
        return Domain.NUMBER if statement.op.segments is None else Domain.SEGMENT
    if isinstance(statement.op, ops.Repeat):
        return Domain.ELEMENT
    if statement.type.is_scalar:
        return Domain.NUMBER
    return Domain.SEGMENT if args and Domain.ELEMENT not in args else Domain.ELEMENT


def _require(program: Program, statement: Statement) -> None:
    """The reason why the back end cannot run a statement, as an error."""
    op, kind = statement.op, statement.type
    if statement.is_source and kind.is_scalar:
        return
    if not isinstance(op, (*_ELEMENTWISE, *_ROOTED, ops.Input, ops.Reduce)):
        raise WeaveError(f"{statement.name}: {op.word} is no element-by-element operation")
    if isinstance(op, ops.Reduce) and op.dim is not None:
        raise WeaveError(f"{statement.name} reduces along a dim; only whole or by segments")
    if isinstance(op, ops.Reduce) and isinstance(program[statement.args[0]].type.layout, Partial):
        raise WeaveError(f"{statement.name} reduces a Partial tensor; AllReduce it first")
    if isinstance(kind.layout, Partial) and statement.name in program.returns:
        raise WeaveError(f"{statement.name} is returned while Partial; AllReduce it first")
    if isinstance(op, ops.Reduce):
        return
    if kind.dtype not in (DType.FLOAT32, DType.BOOL) and not kind.is_scalar:
        raise WeaveError(f"{statement.name} is {kind.dtype.name}; only FLOAT32 is generated")
    if isinstance(op, ops.Update) and isinstance(kind.layout, Partial):
        raise WeaveError(f"{statement.name} updates a Partial tensor")


def _shape(program: Program, domains: dict[str, Domain]) -> Shape:
    """The shape of the largest element-by-element value: what the loops run over."""
    shapes = [s.type.shape for s in program if domains[s.name] is Domain.ELEMENT]
    if not shapes:
        return (0,)  # numbers only: no loop at all
    shape = max(shapes, key=math.prod)
    if math.prod(shape) == 0:
        raise WeaveError(f"{program.name} has no elements to work on")
    return shape


def _require_shape(statement: Statement, shape: Shape) -> None:
    """Row-major loops can stretch an operand only along leading dims."""
    have = statement.type.shape
    if have not in (shape, shape[len(shape) - len(have) :]):
        raise WeaveError(
            f"{statement.name} has shape {list(have)} in loops over {list(shape)}; "
            "only the same shape, or its last dims, are generated"
        )
