"""Statements put in an order in which each kernel's members stand together.

A launch waits for all that its members read; a cycle between launches means that they cannot run
as fused. Readers of an input go before its Update.
"""

from dataclasses import replace

from paceline.weave import ops
from paceline.weave.program import Program, Statement
from paceline.weave.rules import WeaveError


def in_launch_order(program: Program) -> Program:
    """The same program, stable where it can be; raises on a cycle between launches."""
    waits = _waits(program)
    home = {m: k.name for k in program.kernels for m in k.members}
    order: list[str] = []  # launches, ready ones first by their place in the program
    left = list(dict.fromkeys(home.get(s.name, s.name) for s in program))
    needs = {name: set[str]() for name in left}
    for name, sources in waits.items():
        needs[home.get(name, name)] |= {home.get(s, s) for s in sources}
    for name in left:
        needs[name].discard(name)
    while left:
        ready = next((n for n in left if not needs[n] - set(order)), None)
        if ready is None:
            raise WeaveError(f"a cycle: {' and '.join(_stuck(left, needs))} wait for each other")
        order.append(ready)
        left.remove(ready)
    rank = {name: i for i, name in enumerate(order)}
    placed = sorted(program.statements, key=lambda s: rank[home.get(s.name, s.name)])
    return replace(program, statements=tuple(placed))


def _waits(program: Program) -> dict[str, set[str]]:
    """What each statement must come after: its operands, and for an Update the target's readers."""
    waits = {s.name: set(s.args) for s in program}
    for statement in program:
        if isinstance(statement.op, ops.Update):
            waits[statement.name] |= _other_readers(program, statement)
    return waits


def _other_readers(program: Program, update: Statement) -> set[str]:
    return {r.name for r in program.readers(update.args[0]) if r.name != update.name}


def _stuck(left: list[str], needs: dict[str, set[str]]) -> list[str]:
    """A ring of launches that wait for each other."""
    path, waiting = [left[0]], set(left)
    while True:
        following = next(n for n in sorted(needs[path[-1]] & waiting))
        if following in path:
            return path[path.index(following) :]
        path.append(following)
