"""`Buckets`: gradients that arrive together, of all ranks and steps."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from paceline.graph.gradients import carried_by, carrying, not_told
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE, DepKind, OpKind, Phase
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

    def repeated(self, times: int, ops: int) -> "Buckets":
        """Of a single step of so many ops that stands so many times in a row."""
        copy = np.arange(times)[:, None]
        step = (self.step * times + copy).reshape(-1)
        order = np.argsort(step, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return replace(
            self,
            step=step[order],
            held=np.tile(self.held, times)[order],
            brings=(self.brings + ops * copy).reshape(-1),
            of=place[(self.of + len(self) * copy).reshape(-1)],
        )


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
        there(graph, links)[calls],
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
    marks = np.zeros(len(graph), np.uint64)
    begins = np.flatnonzero(np.diff(call, prepend=NONE))
    marks[call[begins]] = np.add.reduceat(_mixed(parameter), begins)
    _, at, held = np.unique(marks[calls], return_index=True, return_inverse=True)
    ends = zip(first[at].tolist(), last[at].tolist())
    return held, [parameter[begin:end].tolist() for begin, end in ends]


def _mixed(values: Int64) -> NDArray[np.uint64]:
    """Numbers hashed into 64 bits, so that sums of different sets differ."""
    found = (values.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    mixed: NDArray[np.uint64] = found ^ (found >> np.uint64(31))
    return mixed


def there(graph: Graph, links: Links) -> Int64:
    """By collective: itself, or the last op that unpacks what it brought, behind further rounds."""
    ops, following = graph.ops, np.arange(len(graph))
    works = (ops.kind == OpKind.COMPUTE) & (ops.phase == Phase.COMMUNICATION)
    talks, rows = TALKS[ops.kind], links.kind == DepKind.DATA
    rows &= (talks[links.src] & works[links.op]) | (works[links.src] & (works | talks)[links.op])
    following[links.src[rows]] = links.op[rows]
    found = following
    while not np.array_equal(found, following[found]):
        found = following[found]
    return found
