"""What most recorded steps of a rank do: the same gradients, calls and communication in order.

Communication is the same where as many bytes are sent, but for all-to-alls of a job that routes its
data (a mixture of experts): where no sizes are those of most steps, those of all-to-alls do not
count, and the typical step has the sizes of the step that stands for all.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from paceline.errors import GraphError
from paceline.graph.condense.cuts import Cuts
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, Collective
from paceline.graph.rank_steps import RankSteps

Key = tuple[bytes, ...]


@dataclass(frozen=True, eq=False)
class Shapes:
    """The step that stands for all, and which ops are of a rank's step that did the same."""

    reference: int
    alike: Bool


def common_shapes(graph: Graph, cuts: Cuts) -> Shapes:
    """Says why where the recorded steps differ too much for one to stand for all."""
    ops = graph.ops
    steps = [int(step) for step in np.unique(ops.step) if step != NONE]
    if not steps:
        return Shapes(NONE, np.ones(len(graph), np.bool_))
    alike = np.zeros(len(graph), np.bool_)
    rows_of, none = _by_rank_and_step(graph), np.zeros(0, np.int64)
    for rank in graph.ranks:
        parts = {step: rows_of.get((rank, step), none) for step in steps}
        keys = _keys(graph, cuts, parts)
        shape, times = _commonest(keys)
        if 2 * times <= len(steps):
            raise GraphError(
                f"the recorded steps of rank {rank} differ: only {times} of {len(steps)} "
                "communicate in the same order. Record steady steps of a job whose steps are alike."
            )
        for step, rows in parts.items():
            alike[rows] = keys[step] == shape
    return Shapes(_reference(graph, alike, steps), alike)


def _by_rank_and_step(graph: Graph) -> dict[tuple[int, int], Int64]:
    """Ops of each rank's step, ascending."""
    rows = RankSteps.of(graph)
    order = np.argsort(rows.of_op, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(rows.of_op, minlength=len(rows)))[:-1])
    return dict(zip(zip(rows.rank.tolist(), rows.step.tolist()), parts))


def _keys(graph: Graph, cuts: Cuts, parts: Mapping[int, Int64]) -> dict[int, Key]:
    """By step what a rank did in it: with all sizes where most steps have the same, else without
    those of all-to-alls."""
    sized = {step: _key(graph, cuts, rows, routes=False) for step, rows in parts.items()}
    if 2 * _commonest(sized)[1] > len(parts):
        return sized
    return {step: _key(graph, cuts, rows, routes=True) for step, rows in parts.items()}


def _commonest(keys: Mapping[int, Key]) -> tuple[Key, int]:
    """The key of most steps, and of how many."""
    return Counter(keys.values()).most_common(1)[0]


def _key(graph: Graph, cuts: Cuts, rows: Int64, *, routes: bool) -> Key:
    """What a rank did in a step, less its work; of a job that routes its data, less what it sent
    in all-to-alls."""
    ops = graph.ops
    cut = rows[cuts.cut[rows]]
    talks = rows[cuts.turn[rows] != NONE]
    talks = talks[np.argsort(cuts.turn[talks], kind="stable")]
    columns = (ops.lane[cut], ops.tensor[cut], *_called(graph, talks, routes=routes))
    return tuple(np.ascontiguousarray(column).tobytes() for column in columns)


def _called(graph: Graph, talks: Int64, *, routes: bool) -> tuple[np.ndarray, ...]:
    ops = graph.ops
    size = ops.size_bytes[talks]
    if routes:
        size = np.where(ops.collective[talks] == Collective.ALL_TO_ALL, 0, size)
    return ops.kind[talks], ops.collective[talks], size, ops.group[talks]


def _reference(graph: Graph, alike: Bool, steps: list[int]) -> int:
    """The step of median work among those in which every rank did what most of its steps do; where
    there are such, of those whose step before was recorded too: that shows what it waited for."""
    ops = graph.ops
    whole = [step for step in steps if alike[ops.step == step].all()]
    if not whole:
        raise GraphError(
            "in no recorded step did all ranks do what most of their steps do; record steady "
            "steps of a job whose steps are alike"
        )
    follows = [step for step in whole if step - 1 in steps]
    work = {step: int(np.maximum(ops.dur_ns[ops.step == step], 0).sum()) for step in whole}
    ordered = sorted(follows or whole, key=lambda step: work[step])
    return ordered[(len(ordered) - 1) // 2]
