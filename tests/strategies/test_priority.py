"""`priority`: which exchange goes first, and that ranks agree on it."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from paceline.errors import GraphError
from paceline.graph import Facts, Graph, GraphBuilder, OpKind, check
from paceline.graph.synthetic import TrainingJob, training
from paceline.replay import Timeline, replay
from paceline.strategies import StrategyError, parse, transformed

if TYPE_CHECKING:
    from collections.abc import Sequence

JOB = TrainingJob(layers=3, bucket_bytes=1)  # six gradients, each a bucket


def line_of(graph: Graph, took_ns: int) -> Timeline:
    """Every exchange takes so long, every announcement one nanosecond."""
    talks = graph.ops.kind == OpKind.COLLECTIVE
    told = graph.ops.kind == OpKind.TRANSFER
    return replay(graph, prices=np.where(talks, took_ns, np.where(told, 1, graph.ops.dur_ns)))


def order_of(graph: Graph, line: Timeline, rank: int) -> list[str]:
    """The first gradient of each exchange of a rank, in the order in which they travel."""
    talks = np.flatnonzero((graph.ops.kind == OpKind.COLLECTIVE) & (graph.ops.rank == rank))
    talks = talks[np.argsort(line.start_ns[talks], kind="stable")]
    sources: list[Sequence[int]] = [graph.deps.of(op).tolist() for op in talks.tolist()]
    return [next(graph[op].tensor for op in found if graph[op].tensor) for found in sources]


def test_front_layers_overtake_what_waits() -> None:
    made = check(parse("priority").transform(training(JOB)))
    slow = line_of(made, 10_000_000)  # all gradients are ready while the first travels
    order = order_of(made, slow, 0)
    assert order == ["2.bias", "0.bias", "0.weight", "1.bias", "1.weight", "2.weight"]
    assert order_of(made, slow, 1) == order


def test_without_a_queue_they_go_as_they_are_ready() -> None:
    made = parse("priority").transform(training(JOB))
    quick = order_of(made, line_of(made, 10), 0)
    assert quick == [f"{layer}.{kind}" for layer in (2, 1, 0) for kind in ("bias", "weight")]


def test_a_late_rank_takes_the_first_ones_order() -> None:
    made = parse("priority").transform(training(JOB))
    late = (made.ops.rank == 1) & (made.ops.kind == OpKind.COMPUTE)
    slower = np.where(late, 3 * made.ops.dur_ns, made.ops.dur_ns)
    made = check(replace(made, ops=replace(made.ops, dur_ns=slower)))
    line = line_of(made, 10_000_000)
    assert order_of(made, line, 0) == order_of(made, line, 1)


def test_another_number_of_workers_is_chosen_before() -> None:
    plan = [parse("priority"), parse("workers(count=4)")]
    with pytest.raises(StrategyError, match=r"give workers\(count=4\) first"):
        transformed(training(JOB), plan)


def test_a_job_without_gradients_has_nothing_to_put_in_order() -> None:
    b = GraphBuilder(facts=Facts(world_size=2))
    b.op("mm", b.lane(), 5)
    with pytest.raises(GraphError, match="none can go first"):
        parse("priority").transform(b.build())
