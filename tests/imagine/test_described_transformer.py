"""A transformer by its dimensions: schedules, work, messages, and what does not divide."""

from typing import Any

import numpy as np
import pytest

from paceline.errors import GraphError
from paceline.graph import Collective, FoldedGraph, OpKind, Phase
from paceline.graph.law import check_columns
from paceline.graph.schedules import TaskKind, order
from paceline.imagine.transformer import (
    Degrees,
    Recompute,
    Schedule,
    Training,
    Transformer,
    describe,
)
from paceline.replay import replay

SMALL = Transformer(layers=8, hidden=64, heads=8, seq=32, vocab=128)
ALL = tuple(Schedule)


def chunks(schedule: Schedule) -> int:
    return 2 if schedule is Schedule.INTERLEAVED else 1


def drawn(degrees: Degrees, schedule: Schedule = Schedule.ONE_F_ONE_B, **more: Any) -> FoldedGraph:
    training = Training(32, schedule=schedule, chunks=chunks(schedule), **more)
    return describe(SMALL, degrees, training)


def step(folded: FoldedGraph, forward: int = 10, backward: int = 20) -> int:
    """Replay when only kernels take time, so many units a pass and layer."""
    ops = folded.graph.ops
    names = np.array(folded.graph.names)[ops.name]
    dur = np.zeros(len(ops), np.int64)
    dur[(names == "qkv") & (ops.phase == Phase.FORWARD)] = forward
    dur[names == "qkv input"] = backward // 2
    dur[names == "qkv weights"] = backward // 2
    return replay(folded.graph, prices=dur).step_ns


@pytest.mark.parametrize("schedule", ALL)
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_every_stage_runs_every_pass_once_and_forward_first(
    schedule: Schedule, stages: int
) -> None:
    for stage in range(stages):
        blocks = order(schedule, stage, stages, 8, chunks(schedule))
        seen: dict[tuple[int, int], list[TaskKind]] = {}
        for block in blocks:
            seen.setdefault((block.microbatch, block.chunk), []).append(block.work)
        assert len(seen) == 8 * chunks(schedule)
        split = schedule is Schedule.ZERO_BUBBLE
        expected = [TaskKind.FORWARD, TaskKind.BACKWARD] + [TaskKind.WEIGHT] * split
        assert all(works == expected for works in seen.values())


def test_one_f_one_b_warms_up_by_the_stages_below() -> None:
    works = [block.work.name[0] for block in order(Schedule.ONE_F_ONE_B, 1, 4, 4, 1)]
    assert "".join(works) == "FFFBFBBB"


def test_the_bubble_is_the_textbooks() -> None:
    four, m, layers = Degrees(pipeline=4), 32, 2  # layers a stage
    slot = layers * 30
    assert step(drawn(four)) == (m + 3) * slot
    assert step(drawn(four, Schedule.GPIPE)) == (m + 3) * slot
    assert step(drawn(Degrees())) == m * 8 * 30


def test_interleaving_and_zero_bubble_shorten_the_bubble() -> None:
    four = Degrees(pipeline=4)
    plain = step(drawn(four))
    ideal = 32 * 2 * 30
    interleaved = step(drawn(four, Schedule.INTERLEAVED))
    assert interleaved - ideal == (plain - ideal) // 2
    assert step(drawn(four, Schedule.ZERO_BUBBLE)) - ideal < (plain - ideal) * 0.6


@pytest.mark.parametrize("schedule", ALL)
@pytest.mark.parametrize(
    "degrees",
    [Degrees(2, 2, 4), Degrees(4, 1, 2, 2), Degrees(4, 2, 1, 1, 4), Degrees(1, 1, 1)],
)
def test_graphs_are_lawful_and_every_message_has_two_ends(
    schedule: Schedule, degrees: Degrees
) -> None:
    model = Transformer(8, 64, 8, 32, 128, experts=degrees.expert, top_k=1)
    training = Training(32, 2, schedule, chunks(schedule), zero_stage=1, overlap_gradients=True)
    folded = describe(model, degrees, training)
    graph = folded.graph
    check_columns(graph)
    assert folded.ranks == degrees.world
    joined = graph.ops.instance[np.isin(graph.ops.kind, (OpKind.SEND, OpKind.RECV))]
    assert (np.bincount(joined, minlength=1)[joined] == 2).all()
    sends = graph.ops.kind == OpKind.SEND
    assert sends.sum() * 2 == len(joined)
    assert replay(graph, prices=np.ones(len(graph), np.int64)).step_ns > 0


def flops(folded: FoldedGraph) -> int:
    return int(folded.graph.ops.flops.sum())


def test_arithmetic_is_six_times_parameters_times_tokens_and_attention() -> None:
    tokens, layer = 32 * 32, 12 * 64 * 64
    attention = 12 * 32 * 64 * tokens * 8  # 12 s h a token and layer, forward and backward
    head = 6 * 64 * 128 * tokens
    assert flops(drawn(Degrees())) == 6 * 8 * layer * tokens + attention + head


def test_tensor_ranks_share_arithmetic_and_recomputation_adds_a_forward_pass() -> None:
    whole = flops(drawn(Degrees()))
    assert flops(drawn(Degrees(tensor=4))) * 4 == whole
    head = 6 * 64 * 128 * 32 * 32
    again = flops(drawn(Degrees(), recompute=Recompute.FULL))
    assert again - head == (whole - head) * 4 // 3


def test_a_tensor_parallel_layer_has_four_all_reduces_a_micro_batch() -> None:
    graph = drawn(Degrees(tensor=2)).graph
    names = np.array(graph.names)[graph.ops.name]
    reduced = (graph.ops.collective == Collective.ALL_REDUCE) & (names != "embedding all-reduce")
    assert reduced.sum() == 32 * (8 * 4 + 1)  # and one for the logits' gradient


def test_zero_replaces_the_all_reduce_of_gradients() -> None:
    kinds = {
        stage: sorted(
            Collective(c).name
            for c in np.unique(drawn(Degrees(data=4), zero_stage=stage).graph.ops.collective)
            if c
        )
        for stage in (0, 1)
    }
    assert kinds == {0: ["ALL_REDUCE"], 1: ["ALL_GATHER", "REDUCE_SCATTER"]}


def test_zero_three_gathers_every_layer_before_each_pass() -> None:
    graph = drawn(Degrees(data=4), zero_stage=3).graph
    gathers = np.flatnonzero(graph.ops.collective == Collective.ALL_GATHER)
    assert len(gathers) == 8 * 2 * (32 // 4)  # layers, passes, micro-batches
    dur = np.ones(len(graph), np.int64)
    timeline = replay(graph, prices=dur)
    waiting = np.isin(graph.deps.src, gathers)
    owner = np.repeat(np.arange(len(graph)), np.diff(graph.deps.ptr))[waiting]
    assert len(owner) == len(gathers)
    assert (timeline.start_ns[owner] >= timeline.end_ns[graph.deps.src[waiting]]).all()


@pytest.mark.parametrize(
    ("model", "degrees", "training", "message"),
    [
        (SMALL, Degrees(pipeline=3), Training(32), "layers=8 is not divisible by pipeline"),
        (SMALL, Degrees(tensor=16), Training(32), "heads=8 is not divisible"),
        (SMALL, Degrees(data=5), Training(32), "global_batch=32 is not divisible"),
        (SMALL, Degrees(expert=2, data=2), Training(32), "experts=1 is not divisible"),
        (SMALL, Degrees(data=0), Training(32), "data is 0"),
        (SMALL, Degrees(), Training(32, zero_stage=4), "ZeRO stage 4"),
        (SMALL, Degrees(), Training(32, chunks=2), "need the interleaved schedule"),
        (
            SMALL,
            Degrees(pipeline=4),
            Training(6, schedule=Schedule.INTERLEAVED, chunks=2),
            "micro-batches=6 is not divisible",
        ),
        (Transformer(8, 64, 8, 32, top_k=2), Degrees(), Training(32), "top_k=2 of 1 experts"),
    ],
)
def test_what_does_not_divide_is_named(
    model: Transformer, degrees: Degrees, training: Training, message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        describe(model, degrees, training)
