"""Synthetic jobs have the published shapes and are lawful."""

from collections.abc import Callable

import pytest

from paceline.errors import GraphError
from paceline.graph import Axis, Collective, Discipline, Graph, LaneKind, OpKind, check, select
from paceline.graph.schedules import Schedule, order
from paceline.graph.synthetic import (
    Layered,
    MachineKind,
    Parallel,
    Pipeline,
    Ring,
    TrainingJob,
    Transformer,
    layered,
    pipeline,
    ring,
    training,
    transformer,
)


@pytest.mark.parametrize(("ranks", "ops"), [(4, 4_000), (8, 14_400), (32, 211_200)])
def test_rings_have_the_size_of_dpros_graphs(ranks: int, ops: int) -> None:
    graph = ring(Ring(ranks=ranks))
    assert len(graph) == ops
    assert len(select(graph, "rank=0,phase=forward")) == 150
    assert len(select(graph, "rank=0,phase=backward")) == 150
    assert len(select(graph, "rank=0,tensor=tensor 7,kind=transfer")) == 2 * (ranks - 1)
    assert len(select(graph, "rank=0,name=update")) == 50


@pytest.mark.parametrize(
    "graph",
    [
        ring(Ring(ranks=3)),
        ring(Ring(ranks=3, jitter=0.3, discipline=Discipline.PRIORITY)),
        pipeline(Pipeline()),
        pipeline(Pipeline(stages=1)),
        transformer(Transformer()),
        transformer(Transformer(data=1, tensor=1, pipeline=4)),
        layered(Layered(ranks=2)),
    ],
)
def test_synthetic_graphs_are_lawful(graph: Graph) -> None:
    assert check(graph) is graph


def test_a_ring_takes_at_most_100_bytes_an_op() -> None:
    graph = ring(Ring(ranks=8))
    columns = [*vars(graph.ops).values(), *vars(graph.deps).values()]
    assert sum(column.nbytes for column in columns) <= 100 * len(graph)


def test_1f1b_runs_forwards_ahead_and_then_in_turn() -> None:
    assert [shown(Schedule.ONE_F_ONE_B, stage) for stage in range(3)] == [
        "F0 F1 F2 B0 F3 B1 B2 B3",
        "F0 F1 B0 F2 B1 F3 B2 B3",
        "F0 B0 F1 B1 F2 B2 F3 B3",
    ]


def test_gpipe_gives_back_the_last_micro_batch_first() -> None:
    assert shown(Schedule.GPIPE, 0) == "F0 F1 F2 F3 B3 B2 B1 B0"


def test_weight_gradients_wait_longer_the_later_the_stage() -> None:
    assert shown(Schedule.ZERO_BUBBLE, 0).startswith("F0 F1 F2 B0 W0 F3 B1 W1")
    assert shown(Schedule.ZERO_BUBBLE, 2) == "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3"


def shown(schedule: Schedule, stage: int) -> str:
    """What one of three stages does with four micro-batches."""
    passes = order(schedule, stage, 3, 4, 1)
    return " ".join(f"{task.work.name[0]}{task.microbatch}" for task in passes)


def test_a_transformer_reduces_activations_and_gradients() -> None:
    graph = transformer(Transformer(data=2, pipeline=2, tensor=2, layers=4, micro_batches=4))
    # 8 ranks * 2 layers a stage: 4 activations (2 forward, 2 backward) in each of 4 micro-batches
    assert len(select(graph, "tensor~activations")) == 8 * 2 * 4 * 4
    assert len(select(graph, "tensor~gradients")) == 8 * 2
    assert {group.axis for group in graph.groups} == {Axis.TENSOR, Axis.DATA}
    assert (graph.ops.kind == OpKind.SEND).sum() == (graph.ops.kind == OpKind.RECV).sum() == 32


@pytest.mark.parametrize("machine", MachineKind)
def test_a_training_job_reduces_its_gradients_in_buckets_and_says_what_it_is(
    machine: MachineKind,
) -> None:
    job = TrainingJob(machine=machine, workers=3, layers=4, bucket_bytes=8 << 20, steps=2)
    graph = check(training(job))
    assert len(select(graph, "kind=collective,rank=0,step=1")) == 2  # 4 layers of 4 MiB
    assert graph.world_size == 3
    assert sum(graph.facts.gradient_bytes().values()) == 4 * (4 << 20)
    assert [group.axis for group in graph.groups] == [Axis.DATA]


def test_a_training_jobs_steps_are_equal_unless_they_are_to_differ() -> None:
    def work(jitter: float) -> set[tuple[int, ...]]:
        ops = training(TrainingJob(steps=3, jitter=jitter, seed=7)).ops
        return {tuple(ops.dur_ns[ops.step == step].tolist()) for step in range(3)}

    assert len(work(0.0)) == 1
    assert len(work(0.1)) == 3


def test_a_layered_job_has_every_layer_in_full() -> None:
    graph = layered(Layered(layers=3, width=5, ranks=2))
    assert len(graph) == 15
    assert [len(select(graph, f"layer=layer {layer}")) for layer in range(3)] == [5, 5, 5]
    assert len(graph.lanes) == 2 * 4


def test_the_lanes_of_a_pipeline_say_where_they_lead() -> None:
    lanes = pipeline(Pipeline(stages=2)).lanes
    told = {(LaneKind(kind), name) for kind, name in zip(lanes.kind, lanes.name)}
    ends = {"to": LaneKind.LINK_OUT, "from": LaneKind.LINK_IN}
    expected = {(kind, f"{way} stage {other}") for way, kind in ends.items() for other in (0, 1)}
    assert told >= expected
    assert not {(ends["to"], "from stage 0"), (ends["from"], "to stage 0")} & told


@pytest.mark.parametrize(
    "make",
    [
        lambda: Ring(ranks=1),
        lambda: Ring(tensors=200),
        lambda: Pipeline(stages=0),
        lambda: Transformer(layers=5, pipeline=2),
        lambda: Layered(width=0),
        lambda: TrainingJob(bucket_bytes=0),
        lambda: TrainingJob(tensor=2),
        lambda: TrainingJob(stages=2),
    ],
)
def test_impossible_jobs_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(GraphError):
        make()


@pytest.mark.parametrize(
    ("machine", "how"),
    [(MachineKind.CPU, Collective.ALL_REDUCE), (MachineKind.GPU, Collective.REDUCE_SCATTER)],
)
def test_sharded_replicas_gather_whole_weights_and_share_out_whole_gradients(
    machine: MachineKind, how: Collective
) -> None:
    """Gloo runs a reduce-scatter as an all-reduce."""
    job = TrainingJob(Parallel.FSDP2, machine, weight_bytes=3000, bias_bytes=1000)
    ops = training(job).ops
    talks = ops.kind == OpKind.COLLECTIVE
    assert set(ops.collective[talks].tolist()) == {Collective.ALL_GATHER, how}
    assert set(ops.size_bytes[talks].tolist()) == {4000}
