"""Rules that put operators in place of others, and where they hold in a recorded step.

A rule is a row of data: which operators follow one another, each in a layer of its own, and what
becomes of one of them. Layers follow one another where one sequence holds both: they have one
parent, and numbers in turn.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE, Basis, OpKind, Phase
from paceline.graph.scaled import scaled


@dataclass(frozen=True)
class Rule:
    """Of layers that follow one another, `target` takes other times."""

    name: str
    pattern: tuple[frozenset[str], ...]  # operators, any of which may begin each layer
    target: int
    forward: float  # the target's time, as a multiple of the recorded
    backward: float
    why: str


@dataclass(frozen=True)
class Match:
    """Layers that a rule holds for, as rows of the name pool."""

    rule: Rule
    layers: tuple[int, ...]


def matches(graph: Graph, rules: tuple[Rule, ...]) -> list[Match]:
    """Where the rules hold on the first rank, in its first step."""
    found = list(_layers(graph))
    return [
        Match(rule, tuple(layer for layer, _ in found[at : at + len(rule.pattern)]))
        for rule in rules
        for at in range(len(found) - len(rule.pattern) + 1)
        if _holds(graph, rule, found[at : at + len(rule.pattern)])
    ]


def substituted(graph: Graph, found: list[Match]) -> Graph:
    """The graph with each match's target changed, on all ranks in all steps."""
    for match in found:
        for phase, factor in (
            (Phase.FORWARD, match.rule.forward),
            (Phase.BACKWARD, match.rule.backward),
        ):
            if factor != 1:
                rows = _work(graph, match.layers[match.rule.target], phase)
                graph = scaled(graph, rows, factor, Basis.ARITHMETIC)
    return graph


def _layers(graph: Graph) -> Iterator[tuple[int, str]]:
    """Layers in the order of the forward pass, each with the operator that begins it."""
    ops = graph.ops
    rows = np.flatnonzero(
        (ops.phase == Phase.FORWARD) & (ops.layer != NONE) & (ops.kind == OpKind.COMPUTE)
    )
    if not len(rows):
        return
    rows = rows[(ops.rank[rows] == ops.rank[rows[0]]) & (ops.step[rows] == ops.step[rows[0]])]
    before = NONE
    for row in rows.tolist():
        if ops.layer[row] != before:
            before = int(ops.layer[row])
            yield before, graph.text(int(ops.name[row]))


def _holds(graph: Graph, rule: Rule, layers: list[tuple[int, str]]) -> bool:
    names = [graph.names[layer] for layer, _ in layers]
    return _in_turn(names) and all(
        operator in wanted for (_, operator), wanted in zip(layers, rule.pattern)
    )


def _in_turn(names: list[str]) -> bool:
    """As an `nn.Sequential` numbers its layers."""
    parents, numbers = zip(*(name.rpartition(".")[::2] for name in names))
    if len(set(parents)) > 1 or not all(number.isdecimal() for number in numbers):
        return False
    first = int(numbers[0])
    return [int(number) for number in numbers] == list(range(first, first + len(names)))


def _work(graph: Graph, layer: int, phase: Phase) -> Int64:
    ops = graph.ops
    mine = (ops.layer == layer) & (ops.phase == phase) & (ops.kind == OpKind.COMPUTE)
    return np.flatnonzero(mine)
