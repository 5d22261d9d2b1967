"""The typical step: coarser graphs replay as fine ones do, lengths are medians, waits are there."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from paceline.errors import GraphError, ReplayError
from paceline.graph import (
    NONE,
    Axis,
    Collective,
    DepKind,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Phase,
    check,
)
from paceline.graph.condense import STEPS, Grain, coarser, condense, first_step
from paceline.graph.synthetic import MachineKind, Parallel, TrainingJob, jumble, training
from paceline.predict.classes import step_ns
from paceline.replay import replay, replay_many

OFTEN = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
SHAPES = st.sampled_from(
    [
        TrainingJob(),
        TrainingJob(parallel=Parallel.FSDP2),
        TrainingJob(parallel=Parallel.TENSOR_DATA, tensor=2),
        TrainingJob(parallel=Parallel.PIPELINE_DATA, stages=2, micro_batches=3, layers=2),
    ]
)
COARSE = st.sampled_from([Grain.LAYER, Grain.EVENT])


def same_times(graph: Graph, grain: Grain) -> None:
    """Every op of the coarser graph begins with the first and ends with the last it holds."""
    made, place = coarser(graph, grain)
    fine, coarse = replay(graph), replay(check(made))
    first = np.full(len(made), np.iinfo(np.int64).max)
    last = np.full(len(made), -1)
    np.minimum.at(first, place, fine.start_ns)
    np.maximum.at(last, place, fine.end_ns)
    assert coarse.start_ns.tolist() == first.tolist()
    assert coarse.end_ns.tolist() == last.tolist()
    assert made.memory.delta_bytes.sum() == graph.memory.delta_bytes.sum()


@pytest.mark.parametrize(("shards", "ops"), [(1, 1), (2, 3)], ids=["whole", "cut"])
def test_the_hosts_part_of_an_update_stays_apart_where_the_rest_is_cut(
    shards: int, ops: int
) -> None:
    b = GraphBuilder(facts=Facts(update_shards=shards))
    lane = b.lane()
    for kind in (OpKind.HOST, OpKind.COMPUTE, OpKind.COMPUTE, OpKind.HOST):
        b.op("adam", lane, 5, kind=kind, phase=Phase.UPDATE)
    assert len(coarser(b.build(), Grain.EVENT)[0]) == ops


@OFTEN
@example(97, False, Grain.LAYER)  # what stands behind a launched op on a drained lane
@example(147, False, Grain.LAYER)  # what a lane is given by an op of its own
@given(st.integers(0, 10**6), st.booleans(), COARSE)
def test_a_coarser_graph_replays_exactly_as_the_fine_one(
    seed: int, recorded: bool, grain: Grain
) -> None:
    graph = jumble(seed, recorded=recorded)
    try:
        replay(graph)
    except ReplayError:  # ops that wait for each other for ever: a jumble may have them
        return
    same_times(graph, grain)


@OFTEN
@given(SHAPES, st.sampled_from(MachineKind), COARSE, st.integers(0, 99))
def test_a_coarser_training_job_replays_exactly_as_the_fine_one(
    job: TrainingJob, machine: MachineKind, grain: Grain, seed: int
) -> None:
    same_times(training(replace(job, machine=machine, steps=2, jitter=0.3, seed=seed)), grain)


def test_work_between_events_becomes_one_op_of_its_phase_or_layer() -> None:
    b = GraphBuilder()
    lane = b.lane()
    for layer, dur in (("a", 1), ("a", 2), ("b", 4)):
        b.op(f"mm {dur}", lane, dur, phase=Phase.FORWARD, layer=layer)
    b.op("adam", lane, 8, phase=Phase.UPDATE)
    graph = b.build()
    by_layer, by_phase = coarser(graph, Grain.LAYER)[0], coarser(graph, Grain.EVENT)[0]
    assert [(op.name, op.dur_ns) for op in by_layer] == [("mm 2", 3), ("mm 4", 4), ("adam", 8)]
    assert [(op.name, op.dur_ns) for op in by_phase] == [("mm 4", 7), ("adam", 8)]
    assert coarser(graph, Grain.OP)[0] is graph


FORWARD, BACKWARD, UPDATE, TALK = 30, 20, 6, 100


def recording(
    forward: Sequence[int] = (FORWARD,) * 3,
    waits: Sequence[bool] = (True,) * 3,
    talk: Sequence[int] = (TALK,) * 3,
    ranks: int = 2,
) -> Graph:
    """Forward in two ops, a gradient, its all-reduce, the wait (where seen), update."""
    b = GraphBuilder()
    group = b.group("0", range(ranks), Axis.DATA)
    lanes = [
        (b.lane(r, "main"), b.lane(r, "gloo", kind=LaneKind.COMM_THREAD)) for r in range(ranks)
    ]
    for step, dur in enumerate(forward):
        instance = b.instance()
        for main, gloo in lanes:
            b.op("step", main, kind=OpKind.MARKER, step=step)
            b.op("addmm", main, dur - dur // 3, phase=Phase.FORWARD, step=step)
            b.op("relu", main, dur // 3, phase=Phase.FORWARD, step=step)
            ready = b.op("mm", main, BACKWARD, phase=Phase.BACKWARD, tensor="w", step=step)
            asked = b.op("c10d", main, kind=OpKind.HOST, phase=Phase.COMMUNICATION, step=step)
            sent = b.op(
                "gloo:all_reduce", gloo, talk[step], after=[asked], dep=DepKind.LAUNCH,
                kind=OpKind.COLLECTIVE, phase=Phase.COMMUNICATION, step=step, group=group,
                collective=Collective.ALL_REDUCE, size_bytes=400, instance=instance,
            )  # fmt: skip
            b.link(ready, sent, DepKind.GRADIENT)
            if waits[step]:
                b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT, step=step)
            b.op("sgd", main, UPDATE, phase=Phase.UPDATE, step=step)
    return check(b.build())


def work_of(graph: Graph, phase: Phase) -> set[int]:
    """What each rank works on it in each step."""
    ops = graph.ops
    mine = ops.phase == phase
    sums = np.zeros((len(graph.ranks), ops.step.max() + 1), np.int64)
    np.add.at(sums, (ops.rank[mine], ops.step[mine]), ops.dur_ns[mine])
    return set(sums.reshape(-1).tolist())


@pytest.mark.parametrize("grain", Grain)
def test_the_typical_step_takes_the_median_of_each_stretch_of_work(grain: Grain) -> None:
    made = check(condense(recording((33, 30, 90, 36, 27), (True,) * 5, (TALK,) * 5), grain))
    assert work_of(made, Phase.FORWARD) == {33}
    assert work_of(made, Phase.BACKWARD) == {BACKWARD}
    assert work_of(made, Phase.UPDATE) == {UPDATE}
    assert set(made.ops.step.tolist()) == set(range(STEPS))


def test_communication_takes_its_median_too() -> None:
    made = condense(recording(talk=(70, 300, 90)))
    assert set(made.ops.dur_ns[made.ops.kind == OpKind.COLLECTIVE].tolist()) == {90}


def test_a_step_of_the_typical_job_is_its_work_and_what_it_waits_for() -> None:
    made = condense(recording())
    assert step_ns(replay(made)) == FORWARD + BACKWARD + TALK + UPDATE


def test_a_disturbed_step_does_not_move_the_typical_one() -> None:
    made = condense(recording((100 * FORWARD, FORWARD, FORWARD), talk=(TALK, TALK, 9 * TALK)))
    assert step_ns(replay(made)) == FORWARD + BACKWARD + TALK + UPDATE


@OFTEN
@given(st.lists(st.integers(0, 90), min_size=3, max_size=7))
def test_the_median_is_that_of_the_recorded_steps(forward: list[int]) -> None:
    count = len(forward)
    made = condense(recording(forward, (True,) * count, (TALK,) * count))
    assert work_of(made, Phase.FORWARD) == {round(median(forward))}


def test_samples_are_what_each_recorded_step_took() -> None:
    made = condense(recording((30, 33, 60)))
    assert made.spread is not None
    (op,) = [
        op for op in made if op.rank == 0 and op.phase is Phase.FORWARD and op.id < len(made) // 3
    ]
    ptr = made.spread.ptr
    assert made.spread.samples_ns[ptr[op.id] : ptr[op.id + 1]].tolist() == [30, 33, 60]


def test_draws_of_the_typical_step_are_of_recorded_steps() -> None:
    drawn = replay_many(condense(recording((30, 33, 60)), steps=1), 300, seed=1)
    assert drawn.steps_ns.min() == 30 + BACKWARD + TALK + UPDATE
    assert drawn.steps_ns.max() == 60 + BACKWARD + TALK + UPDATE


@OFTEN
@given(SHAPES, st.sampled_from(MachineKind))
def test_the_first_of_several_steps_stands_alone(job: TrainingJob, machine: MachineKind) -> None:
    several = training(replace(job, machine=machine, steps=3))
    ops = several.ops
    late = replace(several, ops=replace(ops, step=(ops.step + 7).astype(np.int32)))
    alone = check(first_step(late))
    assert replay(alone).step_ns == replay(training(replace(job, machine=machine))).step_ns
    assert first_step(alone) is alone


@pytest.mark.parametrize("waits", [(True, True, False), (False, False, True), (False,) * 3])
def test_a_wait_that_some_or_all_steps_do_not_show_is_there(waits: Sequence[bool]) -> None:
    """A thread that comes late does not wait; on a slower network it would."""
    made = condense(recording(waits=waits))
    slower = np.where(made.ops.kind == OpKind.COLLECTIVE, 10 * TALK, made.ops.dur_ns)
    assert step_ns(replay(made, prices=slower)) == FORWARD + BACKWARD + 10 * TALK + UPDATE


def test_steps_that_communicate_differently_are_refused_with_how_many_did_the_same() -> None:
    graph = recording()
    ops = graph.ops
    size = np.where(ops.kind == OpKind.COLLECTIVE, ops.size_bytes + ops.step, ops.size_bytes)
    with pytest.raises(GraphError, match="recorded steps of rank 0 differ: only 1 of 3"):
        condense(replace(graph, ops=replace(ops, size_bytes=size)))


def with_odd_steps(graph: Graph, odd: Mapping[int, int]) -> Graph:
    """By rank, the step in which it readied another gradient."""
    ops = graph.ops
    mine = np.array([odd.get(rank) == step for rank, step in zip(ops.rank, ops.step)])
    tensor = np.where(mine & (ops.tensor != NONE), ops.name, ops.tensor)
    return replace(graph, ops=replace(ops, tensor=tensor.astype(np.int32)))


def test_steps_in_which_some_rank_did_something_else_do_not_stand_for_all() -> None:
    graph = with_odd_steps(recording((90, FORWARD, FORWARD)), {0: 0})
    made = condense(graph)
    assert step_ns(replay(made)) == FORWARD + BACKWARD + TALK + UPDATE
    odd = graph.ops.tensor[(graph.ops.step == 0) & (graph.ops.rank == 0)]
    assert not set(odd[odd != NONE]) & set(made.ops.tensor)


def test_ranks_that_were_never_typical_together_are_refused() -> None:
    with pytest.raises(GraphError, match="in no recorded step did all ranks"):
        condense(with_odd_steps(recording(ranks=3), {0: 0, 1: 1, 2: 2}))


@pytest.mark.parametrize("grain", Grain)
@pytest.mark.parametrize("machine", MachineKind)
def test_a_graph_of_one_step_stands_for_itself(grain: Grain, machine: MachineKind) -> None:
    graph = training(TrainingJob(machine=machine))
    made = check(condense(graph, grain, steps=1))
    assert replay(made).step_ns == replay(graph).step_ns
    assert made.facts == graph.facts


@OFTEN
@given(SHAPES, st.sampled_from(MachineKind), st.sampled_from(Grain), st.integers(0, 99))
def test_the_typical_step_is_lawful_and_between_the_shortest_and_the_longest(
    job: TrainingJob, machine: MachineKind, grain: Grain, seed: int
) -> None:
    job = replace(job, machine=machine, seed=seed, steps=5, jitter=0.2)
    made = check(condense(training(job), grain))
    low, high = (
        _work(training(replace(job, steps=1, jitter=0.0))) * factor for factor in (0.8, 1.2)
    )
    assert low <= _work(made) / STEPS <= high


def _work(graph: Graph) -> int:
    return int(graph.ops.dur_ns.sum())


LENGTHS = (50, 70, 90, 80)


def helped() -> Graph:
    """Steps in which the main thread runs, wakes a helper, and waits for it. The helper begins to
    wait for step k + 1 in step k, as real threads do."""
    b = GraphBuilder()
    main, helper = b.lane(name="main"), b.lane(name="helper")
    waits = b.op("idle", helper, kind=OpKind.WAIT, step=0)
    for step, length in enumerate(LENGTHS):
        b.op("step", main, kind=OpKind.MARKER, step=step)
        forward = b.op("forward", main, 10, step=step)
        b.link(forward, waits, DepKind.AUTOGRAD)
        backward = b.op("backward", helper, length - 10, step=step)
        b.op("wait", main, kind=OpKind.WAIT, after=[backward], step=step)
        waits = b.op("idle", helper, kind=OpKind.WAIT, step=step)
    return check(b.build())


@pytest.mark.parametrize("grain", Grain)
def test_a_thread_that_began_to_wait_a_step_earlier_still_waits_for_this_steps_work(
    grain: Grain,
) -> None:
    made = check(condense(helped(), grain))
    assert step_ns(replay(made)) == median(LENGTHS)
