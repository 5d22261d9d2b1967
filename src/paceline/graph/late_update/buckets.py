"""`Buckets`: gradients that arrive together, of all ranks and steps."""

from dataclasses import dataclass

import numpy as np

from paceline.graph.gradients import carried_by, carrying, not_told
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import DepKind, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.membership import TALKS
from paceline.graph.rank_steps import RankSteps


@dataclass(frozen=True, eq=False)
class Buckets:
    """Gradients of one rank's step that arrive together: one row each, step after step in the order
    in which they are handed over."""

    step: Int64  # row of `RankSteps`
    held: Int64  # row of the tables below: buckets are alike on all ranks and in all steps
    brings: Int64  # the ops with which they are there: one, or one for each part
    of: Int64  # the bucket of each
    size_bytes: Int64
    layers: tuple[frozenset[str], ...]

    def __len__(self) -> int:
        return len(self.step)


def arriving(graph: Graph, links: Links, steps: RankSteps) -> Buckets:
    calls = carrying(graph, links)
    held, each = _held(graph, links, calls)
    key = steps.of_op[calls] * max(1, len(each)) + held
    _, first, row = np.unique(key, return_index=True, return_inverse=True)
    order = np.lexsort((first, steps.of_op[calls[first]]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    told = graph.facts.parameters
    return Buckets(
        steps.of_op[calls[first[order]]],
        held[first[order]],
        _there(graph, links)[calls],
        place[row],
        np.array([sum(told[p].size_bytes for p in parameters) for parameters in each], np.int64),
        tuple(frozenset(_layer(told[p].name) for p in parameters) for parameters in each),
    )


def _layer(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def _held(graph: Graph, links: Links, calls: Int64) -> tuple[Int64, list[list[int]]]:
    """By collective a number that is equal for those that carry the same parameters; and these."""
    call, parameter = carried_by(graph, links)
    order = np.lexsort((parameter, call))
    call, parameter = call[order], parameter[order]
    first, last = (np.searchsorted(call, calls, side) for side in ("left", "right"))
    if (first == last).any():
        raise not_told()
    numbers: dict[bytes, int] = {}
    held = [
        numbers.setdefault(parameter[begin:end].tobytes(), len(numbers))
        for begin, end in zip(first.tolist(), last.tolist())
    ]
    return np.array(held, np.int64), [np.frombuffer(k, np.int64).tolist() for k in numbers]


def _there(graph: Graph, links: Links) -> Int64:
    """By collective: itself, or the op that unpacks what it brought."""
    ops, found = graph.ops, np.arange(len(graph))
    unpacks = (ops.kind == OpKind.COMPUTE) & (ops.phase == Phase.COMMUNICATION)
    rows = TALKS[ops.kind[links.src]] & unpacks[links.op] & (links.kind == DepKind.DATA)
    found[links.src[rows]] = links.op[rows]
    return found
