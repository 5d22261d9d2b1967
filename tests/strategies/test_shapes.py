"""Changes of a job's shape: pipelines, substituted operators.

Four workers train two linear layers of 8 x 4 and 4 x 8 with a ReLU between them: forward 100, 20
and 100 ns, backward 200, 20 and 100, an all-reduce of 256 bytes, an update of 80.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.errors import GraphError, PacelineError
from paceline.graph import (
    UNPRICED,
    Axis,
    Collective,
    DepKind,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Parameter,
    Phase,
    Role,
    check,
    select,
)
from paceline.graph.stage_costs import LayerTimes, balanced, layer_times
from paceline.graph.synthetic import TrainingJob, training
from paceline.predict.classes import step_ns
from paceline.replay import replay
from paceline.strategies import parse
from paceline.strategies.strategy import StrategyError

LAYERS = {"0": ("aten::linear", 100), "1": ("aten::relu", 20), "2": ("aten::linear", 100)}
BACKWARD = {"2": 200, "1": 20, "0": 100}
SHAPES = {"0": (8, 4), "2": (4, 8)}


@pytest.fixture
def job() -> Callable[..., Graph]:
    return draw


def draw(workers: int = 4, load_ns: int = 0) -> Graph:
    parameters = tuple(
        Parameter(f"{layer}.weight", 128, shape, layer, Role.LINEAR_WEIGHT)
        for layer, shape in SHAPES.items()
    )
    b = GraphBuilder(facts=Facts(world_size=workers, parameters=parameters))
    group, instance = b.group("0", range(workers), Axis.DATA), b.instance()
    for rank in range(workers):
        main, gloo = b.lane(rank), b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
        if load_ns:
            b.op("load", main, load_ns, kind=OpKind.DATA, phase=Phase.DATA)
        for layer, (name, took) in LAYERS.items():
            b.op(name, main, took, phase=Phase.FORWARD, layer=layer)
        ready = []
        for layer, took in BACKWARD.items():
            tensor = f"{layer}.weight" if layer in SHAPES else ""
            ready.append(b.op("mm", main, took, phase=Phase.BACKWARD, layer=layer, tensor=tensor))
        sent = b.op("all_reduce", gloo, 50, kind=OpKind.COLLECTIVE, group=group, instance=instance,
                    phase=Phase.COMMUNICATION, collective=Collective.ALL_REDUCE,
                    size_bytes=256)  # fmt: skip
        for op in (ready[0], ready[2]):
            b.link(op, sent, DepKind.GRADIENT)
        b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT)
        b.op("sgd", main, 80, phase=Phase.UPDATE)
    return check(b.build())


def cluster(workers: int, bytes_per_s: float = 1e15) -> Cluster:
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(workers))
    return Cluster(hosts, Link.both_ways(bytes_per_s))


def free_step_ns(graph: Graph) -> int:
    """Of a job whose communication takes no time."""
    dur_ns = np.maximum(graph.ops.dur_ns, 0)
    return step_ns(replay(replace(graph, ops=replace(graph.ops, dur_ns=dur_ns))))


def changed(graph: Graph, text: str) -> Graph:
    return check(parse(text).transform(graph))


def talks(graph: Graph, axis: Axis, rank: int = 0) -> list[int]:
    """Bytes of what a rank adds up along an axis, in order."""
    rows = [row for row, group in enumerate(graph.groups) if group.axis is axis]
    mine = (graph.ops.kind == OpKind.COLLECTIVE) & (graph.ops.rank == rank)
    return graph.ops.size_bytes[mine & np.isin(graph.ops.group, rows)].tolist()


def spent(graph: Graph, selection: str) -> list[int]:
    return graph.ops.dur_ns[select(graph, selection)].tolist()


def test_on_a_device_a_layer_takes_as_long_as_its_kernels() -> None:
    """Whoever launches them runs ahead beside them."""
    b = GraphBuilder()
    main, stream = b.lane(), b.lane(name="stream", kind=LaneKind.STREAM)
    for phase, took in ((Phase.FORWARD, 100), (Phase.BACKWARD, 200)):
        for layer in ("a", "b") if phase is Phase.FORWARD else ("b", "a"):
            call = b.op("launch", main, 30, kind=OpKind.HOST, phase=phase, layer=layer)
            b.op("kernel", stream, took, phase=phase, layer=layer, after=[call],
                 dep=DepKind.LAUNCH)  # fmt: skip
    assert layer_times(b.build()) == LayerTimes(("a", "b"), (100, 100), (200, 200), 0)


def test_one_pipeline_of_one_micro_batch_works_as_long_as_its_workers_one_after_the_other(
    job: Callable[..., Graph],
) -> None:
    """Stage 0 has the first layer and the ReLU: 240 of 540 ns; each takes two workers' batches."""
    found = changed(job(2), "pipeline(stages=2, microbatches=1)")
    assert spent(found, "rank=0,kind=compute") == [240, 240, 40]
    assert spent(found, "rank=1,kind=compute") == [200, 400, 40]
    assert free_step_ns(found) == pytest.approx(2 * 540 + 40, abs=2)


def test_micro_batches_shorten_the_bubble_by_the_formula(job: Callable[..., Graph]) -> None:
    """Flushed: stages of f and b ns a batch take (m - 1) / m of the slower and one of each."""
    for count in (2, 4, 10):
        found = changed(job(2), f"pipeline(stages=2, microbatches={count}, schedule='gpipe')")
        step = free_step_ns(found)
        one = (240 + 200 + 400 + 240) / count
        assert step == pytest.approx(one + (count - 1) * (240 + 400) / count + 40, abs=count)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero-bubble", "2bw"])
def test_every_schedule_does_the_same_work(job: Callable[..., Graph], schedule: str) -> None:
    found = changed(job(4), f"pipeline(stages=2, microbatches=8, schedule={schedule!r})")
    for rank, whole in ((0, 240 + 240 + 40), (2, 200 + 400 + 40)):
        assert sum(spent(found, f"rank={rank},kind=compute")) == pytest.approx(whole, abs=8)
    assert talks(found, Axis.DATA) == [128]


def test_interleaved_stages_hold_several_pieces(job: Callable[..., Graph]) -> None:
    """With a piece a layer the first stage has the first and the third."""
    text = "pipeline(stages=2, microbatches=2, schedule='interleaved', chunks=2)"
    with pytest.raises(GraphError, match="3 layers, which cannot be cut into 4 pieces"):
        parse(text).transform(job(2))
    found = changed(training(TrainingJob(layers=4)), text)
    took = TrainingJob().forward_ns
    assert spent(found, "rank=0,phase=forward") == [took] * 4
    backward = (found.ops.rank == 0) & (found.ops.phase == Phase.BACKWARD)
    assert backward.sum() == 4


def test_messages_have_a_micro_batchs_share_of_the_border(job: Callable[..., Graph]) -> None:
    found = changed(job(2), "pipeline(stages=2, microbatches=4, activation_bytes=600)")
    sends = found.ops.kind == OpKind.SEND
    assert set(found.ops.size_bytes[sends].tolist()) == {2 * 600 // 4}
    assert sends.sum() == 2 * 4
    assert (found.ops.dur_ns[sends] == UNPRICED).all()


def test_copies_of_reduced_gradients_are_no_layers_work() -> None:
    """Four layers of equal work, of 4 MiB each, are cut in the middle."""
    found = changed(training(TrainingJob(workers=4)), "pipeline(stages=2)")
    assert talks(found, Axis.DATA, 0) == talks(found, Axis.DATA, 2) == [8 << 20]


def test_the_first_stage_loads_the_batch_of_all_its_workers(job: Callable[..., Graph]) -> None:
    found = changed(job(2, load_ns=30), "pipeline(stages=2)")
    assert spent(found, "kind=data") == [60]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pipeline(stages=2, schedule='fast')", "no schedule is called 'fast'; there are gpipe"),
        ("pipeline(stages=1)", "give 2 stages or more"),
        ("pipeline(stages=4, microbatches=2, schedule='2bw')", "2BW with 4 stages"),
    ],
)
def test_a_pipeline_that_cannot_work_is_refused(text: str, told: str) -> None:
    with pytest.raises(PacelineError, match=told):
        parse(text)


def test_workers_that_do_not_fill_the_stages_are_refused(job: Callable[..., Graph]) -> None:
    with pytest.raises(GraphError, match=r"workers\(count=6\)"):
        parse("pipeline(stages=3)").transform(job(4))


def test_layers_are_cut_where_the_largest_piece_is_smallest() -> None:
    assert balanced([1, 1, 1, 3], 2) == (3,)
    assert balanced([5, 1, 1, 1], 3) == (1, 2)
    assert balanced([4], 1) == ()


def test_a_rule_changes_its_target_alone(job: Callable[..., Graph]) -> None:
    found = changed(job(), "substitute(rules='relu_in_place')")
    assert spent(found, "rank=1,phase=forward") == [100, 13, 100]
    assert spent(found, "rank=1,phase=backward,kind=compute") == [200, 20, 100]


def test_a_rule_that_holds_nowhere_is_refused(job: Callable[..., Graph]) -> None:
    with pytest.raises(StrategyError, match="pool_before_relu holds nowhere"):
        parse("substitute(rules='pool_before_relu')").transform(job())
    with pytest.raises(StrategyError, match="no rule is called 'faster'; there are pool_before"):
        parse("substitute(rules='faster')")
