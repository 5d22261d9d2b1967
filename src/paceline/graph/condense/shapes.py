"""What most recorded steps of a rank do: the same gradients, calls and communication in order."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from paceline.errors import GraphError
from paceline.graph.condense.cuts import Cuts
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE
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
        keys = {step: _key(graph, cuts, rows) for step, rows in parts.items()}
        shape, times = Counter(keys.values()).most_common(1)[0]
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


def _key(graph: Graph, cuts: Cuts, rows: Int64) -> Key:
    """What a rank did in a step, less its work."""
    ops = graph.ops
    cut = rows[cuts.cut[rows]]
    talks = rows[cuts.turn[rows] != NONE]
    talks = talks[np.argsort(cuts.turn[talks], kind="stable")]
    columns = (ops.lane[cut], ops.tensor[cut], *_called(graph, talks))
    return tuple(np.ascontiguousarray(column).tobytes() for column in columns)


def _called(graph: Graph, talks: Int64) -> tuple[np.ndarray, ...]:
    ops = graph.ops
    return ops.kind[talks], ops.collective[talks], ops.size_bytes[talks], ops.group[talks]


def _reference(graph: Graph, alike: Bool, steps: list[int]) -> int:
    """The step of median work among those in which every rank did what most of its steps do."""
    ops = graph.ops
    whole = [step for step in steps if alike[ops.step == step].all()]
    if not whole:
        raise GraphError(
            "in no recorded step did all ranks do what most of their steps do; record steady "
            "steps of a job whose steps are alike"
        )
    work = {step: int(np.maximum(ops.dur_ns[ops.step == step], 0).sum()) for step in whole}
    ordered = sorted(whole, key=lambda step: work[step])
    return ordered[(len(ordered) - 1) // 2]
