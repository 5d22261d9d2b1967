"""Folded graphs have the times of the whole ones, and say that they are folded."""

from dataclasses import replace

import numpy as np
import pytest

from paceline.errors import GraphError, ReplayError
from paceline.graph import Discipline, FoldedGraph, Graph, GraphBuilder, fold
from paceline.graph.synthetic import (
    Layered,
    Pipeline,
    Ring,
    Transformer,
    folded_ring,
    jumble,
    layered,
    pipeline,
    ring,
    transformer,
)
from paceline.replay import Transfers, replay
from paceline.replay.pace import FixedPace


def assert_same_times(folded: FoldedGraph, whole: Graph) -> None:
    one, other = replay(folded), replay(whole)
    for column in ("ready_ns", "start_ns", "end_ns"):
        assert np.array_equal(folded.unfolded(getattr(one, column)), getattr(other, column))
    assert one.folded is folded
    assert other.folded is None


@pytest.mark.parametrize(
    ("graph", "classes"),
    [
        (ring(Ring(ranks=5)), 1),
        (ring(Ring(ranks=5, discipline=Discipline.PRIORITY)), 1),
        (ring(Ring(ranks=4, jitter=0.2)), 4),
        (pipeline(Pipeline(stages=3)), 3),
        (transformer(Transformer(data=4, pipeline=2, tensor=2)), 2),
        (layered(Layered(ranks=3)), 3),
    ],
)
def test_like_ranks_fold_into_classes_with_the_same_times(graph: Graph, classes: int) -> None:
    folded = fold(graph)
    assert len(folded.representatives) == classes
    assert_same_times(folded, graph)


def test_a_straggler_splits_the_ring_by_distance_from_it() -> None:
    graph = ring(Ring(ranks=4))
    dur_ns = graph.ops.dur_ns.copy()
    dur_ns[graph.ops.rank == 2] *= 2
    slow = replace(graph, ops=replace(graph.ops, dur_ns=dur_ns))
    assert len(fold(slow).representatives) == 4
    assert_same_times(fold(slow), slow)


def test_a_rank_on_a_shared_device_is_not_folded_with_one_that_is_alone() -> None:
    b = GraphBuilder()
    shared, own = b.device("shared"), b.device("own")
    for rank, device in enumerate((shared, shared, own)):
        b.op("mm", b.lane(rank, device=device), 10)
    assert len(fold(b.build()).representatives) == 3


def test_folding_never_changes_times_of_random_graphs() -> None:
    for seed in range(150):
        graph = jumble(seed)
        try:
            assert_same_times(fold(graph), graph)
        except ReplayError:
            continue


def test_copies_of_random_ranks_fold() -> None:
    folded_ranks = 0
    for seed in range(60):
        one = jumble(seed, recorded=True)
        if len(one.ranks) == 1 and len(one):
            graph = doubled(one)
            folded = fold(graph)
            assert len(folded.representatives) == 1
            assert_same_times(folded, graph)
            folded_ranks += 1
    assert folded_ranks > 5


def doubled(graph: Graph) -> Graph:
    """The same single rank twice, as ranks 0 and 1, on devices of their own."""
    ops, lanes, count = graph.ops, graph.lanes, len(graph)
    columns = {k: np.concatenate([v, v]) for k, v in vars(ops).items()}
    columns["rank"] = np.repeat(np.array([0, 1], np.int32), count)
    columns["lane"][count:] += len(lanes)
    joined = columns["instance"][count:] >= 0
    columns["instance"][count:][joined] += count
    both = {k: np.concatenate([v, v]) for k, v in vars(lanes).items() if k != "name"}
    both["rank"] = np.repeat(np.array([0, 1], np.int32), len(lanes))
    both["device"][len(lanes) :] += len(graph.devices)
    deps = graph.deps
    return replace(
        graph,
        ops=replace(ops, **columns),
        lanes=replace(lanes, **both, name=lanes.name * 2),
        deps=replace(
            deps,
            ptr=np.concatenate([deps.ptr, deps.ptr[1:] + len(deps)]),
            src=np.concatenate([deps.src, deps.src + np.int32(count)]),
            kind=np.tile(deps.kind, 2),
            inferred=np.tile(deps.inferred, 2),
        ),
        devices=graph.devices * 2,
        memory=type(graph.memory).none(),
        spread=None,
    )


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("discipline", Discipline)
def test_a_ring_drawn_folded_equals_the_whole_ring(ranks: int, discipline: Discipline) -> None:
    job = Ring(ranks=ranks, discipline=discipline)
    drawn, whole = folded_ring(job), ring(job)
    assert drawn.ranks == ranks
    timeline = replay(drawn)
    assert np.array_equal(np.tile(timeline.end_ns, ranks), replay(whole).end_ns)


def test_shared_links_need_the_whole_graph() -> None:
    folded = fold(ring(Ring(ranks=3)))
    transfers = Transfers(np.zeros(len(folded.graph), np.bool_), lambda: FixedPace(np.zeros(0)))
    with pytest.raises(ReplayError, match="stands for 3 ranks but draws 1"):
        replay(folded, transfers=transfers)


def test_what_was_never_drawn_cannot_be_unfolded() -> None:
    folded = folded_ring(Ring(ranks=64))
    with pytest.raises(GraphError, match="no whole graph"):
        folded.unfolded(replay(folded).end_ns)
    with pytest.raises(GraphError, match="cannot be folded"):
        folded_ring(Ring(jitter=0.1))
