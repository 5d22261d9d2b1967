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
    NONE,
    UNPRICED,
    Axis,
    Collective,
    DepKind,
    DType,
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
from paceline.graph.stage_costs import (
    LayerTimes,
    about_balanced,
    balanced,
    job_cost,
    layer_times,
)
from paceline.graph.synthetic import TrainingJob, training
from paceline.graph.variants import Ratio, Variant
from paceline.graph.work import Elements, Matrix, Recorded, matrix, pointwise
from paceline.predict import predict
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


def worked(graph: Graph, rows: int) -> Graph:
    """The layers' forward passes with what they worked on."""
    works = {
        "0": matrix(Matrix(1, rows, 8, 4), DType.FLOAT32),
        "1": pointwise(Elements(rows * 8), DType.FLOAT32),
        "2": matrix(Matrix(1, rows, 4, 8), DType.FLOAT32),
    }
    column, forward = np.full(len(graph), NONE, np.int32), graph.ops.phase == Phase.FORWARD
    for at, layer in enumerate(works):
        column[(graph.ops.layer == graph.names.index(layer)) & forward] = at
    known = tuple(Recorded("aten::mm", work) for work in works.values())
    return replace(graph, works=known, ops=replace(graph.ops, work=column))


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


def test_a_pipeline_takes_turns_with_the_batches_of_its_workers(job: Callable[..., Graph]) -> None:
    """Stage 0 has the first layer and the ReLU: 120 ns forward and 120 back a batch; stage 1 100
    and 200. Worker 0 computes its loss behind both of its forward passes; what stage 1 does from
    then on, the last backward pass and an update of 40 follow one another."""
    found = changed(job(2), "pipeline(stages=2, microbatches=2)")
    assert spent(found, "rank=0,phase=forward,name=forward") == [120, 120]
    assert spent(found, "rank=1,phase=backward,name=backward") == [200, 200]
    assert spent(found, "rank=0,phase=update") == [40]
    assert free_step_ns(found) == 2 * 120 + 200 + (100 + 200) + 120 + 40


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
    steps = len(set(found.ops.step.tolist()))
    for rank, whole in ((0, 240 + 240 + 40), (1, 200 + 400 + 40)):
        took = sum(spent(found, f"rank={rank},kind=compute"))
        assert took / steps == pytest.approx(whole, abs=8)
    assert talks(found, Axis.DATA) == [128] * steps


def test_without_flush_a_step_is_the_time_between_updates(job: Callable[..., Graph]) -> None:
    """No less than the last stage works, two batches of 100 + 200 and its update, and less than
    where the pipeline runs empty."""

    def step_of(schedule: str) -> int:
        found = changed(job(2), f"pipeline(stages=2, microbatches=4, schedule={schedule!r})")
        free = replace(found.ops, dur_ns=np.maximum(found.ops.dur_ns, 0))
        return predict(replace(found, ops=free)).step_ns

    assert 2 * 300 + 40 <= step_of("2bw") < step_of("1f1b")


def test_interleaved_stages_hold_several_pieces(job: Callable[..., Graph]) -> None:
    """With a piece a layer the first stage has the first and the third."""
    text = "pipeline(stages=2, microbatches=2, schedule='interleaved', chunks=2)"
    with pytest.raises(GraphError, match="3 layers or blocks, which cannot be cut into 4 pieces"):
        parse(text).transform(job(2))
    found = changed(training(TrainingJob(layers=4)), text)
    took = TrainingJob().forward_ns
    assert spent(found, "rank=0,name=forward") == [took] * 4
    backward = (found.ops.rank == 0) & (found.ops.phase == Phase.BACKWARD)
    assert backward.sum() == 4 + 1  # and the loss's


def test_messages_have_a_micro_batchs_share_of_what_layers_give(job: Callable[..., Graph]) -> None:
    """Eight samples of 4 numbers go in, 8 pass between the layers, 4 come out; each worker is the
    other's stage, so that half of what enters and leaves need not travel."""
    found = changed(worked(job(2), rows=8), "pipeline(stages=2, microbatches=4)")
    sends = found.ops.kind == OpKind.SEND
    assert (found.ops.dur_ns[sends] == UNPRICED).all()
    sizes = found.ops.size_bytes[sends].tolist()
    enters, border, leaves = 4 * 8 * 4 // 2, 4 * 8 * 8 // 2, 4 * 8 * 4 // 2
    # worker 1's batch enters, all pass there and back, worker 0's outputs leave and their gradient
    assert sorted(sizes) == sorted([enters] * 2 + [border] * 8 + [leaves] * 4)


def test_a_recording_that_tells_no_sizes_is_said_to(job: Callable[..., Graph]) -> None:
    plan = parse("pipeline(stages=2)")
    assert list(plan.rests_on(plan.transform(job(2)))) == [
        "the recording does not tell all that passes between stages: it counts as free"
    ]
    assert not list(plan.rests_on(plan.transform(worked(job(2), rows=8))))


def test_parts_of_a_batch_take_longer_than_the_whole_where_that_was_measured(
    job: Callable[..., Graph],
) -> None:
    """A product on half of the samples takes 0.6 of its time: a fifth of it stays. The ReLU has
    work and shrinks. Two workers' batches are four parts, of which three are added to another: the
    sum takes a tenth of the product of 200 ns that makes the gradient of 4 x 8 numbers."""
    whole = worked(job(2), rows=8)
    ratios = (
        Ratio("aten::linear", Variant.HALVED, 0.6, 0.6, 0.6),
        Ratio("mm", Variant.HALVED, 0.5, 0.5, 0.5),
        Ratio("mm", Variant.ADDED, 1.1, 1.1, 1.1),
    )
    made = matrix(Matrix(1, 4, 8, 8), DType.FLOAT32)
    back = (whole.ops.layer == whole.names.index("2")) & (whole.ops.phase == Phase.BACKWARD)
    graph = replace(
        whole,
        works=(*whole.works, Recorded("mm", made)),
        ops=replace(whole.ops, work=np.where(back, 3, whole.ops.work).astype(np.int32)),
        facts=replace(whole.facts, ratios=ratios),
    )
    found = changed(graph, "pipeline(stages=2, microbatches=4)")
    assert spent(found, "rank=0,name=forward") == [round((100 * 1.2 + 20) / 2)] * 4
    assert spent(found, "rank=1,name=forward") == [round(100 * 1.2 / 2)] * 4
    assert spent(found, "rank=1,name=backward") == [round(200 * (1 + 0.1 * 3 / 2) / 2)] * 4
    assert not list(parse("pipeline(stages=2, microbatches=4)").rests_on(graph))
    assert "measure --for RUN" in "".join(
        parse("pipeline(stages=2, microbatches=4)").rests_on(whole)
    )


def test_pieces_begin_where_the_plan_says(job: Callable[..., Graph]) -> None:
    found = changed(job(2), "pipeline(stages=2, microbatches=2, begins='1')")
    assert spent(found, "rank=0,name=forward") == [100, 100]
    assert spent(found, "rank=1,name=forward") == [120, 120]
    with pytest.raises(GraphError, match="no piece can begin with '7'; it can with 1, 2"):
        parse("pipeline(stages=2, begins='7')").transform(job(2))


def test_blocks_stay_whole_and_the_loss_is_its_workers() -> None:
    """Layers of 10 ns, of which two are one block; 7 and 5 ns without a layer are the loss's."""
    b = GraphBuilder(facts=Facts(world_size=1))
    lane = b.lane(0)
    for layer in ("embed", "layers.0.one", "layers.0.two", "out"):
        b.op("aten::mm", lane, 10, phase=Phase.FORWARD, layer=layer)
    b.op("aten::nll_loss", lane, 7, phase=Phase.FORWARD)
    b.op("aten::nll_loss_backward", lane, 5, phase=Phase.BACKWARD)
    for layer in ("out", "layers.0.two", "layers.0.one", "embed"):
        b.op("aten::mm", lane, 10, phase=Phase.BACKWARD, layer=layer)
    cost = job_cost(b.build(), 3)
    assert [piece.forward_ns for piece in cost.pieces] == [10, 20, 10]
    assert [piece.backward_ns for piece in cost.pieces] == [10, 20, 10]
    assert (cost.loss_forward_ns, cost.loss_backward_ns) == (7, 5)
    with pytest.raises(GraphError, match="3 layers or blocks, which cannot be cut into 4"):
        job_cost(b.build(), 4)


def test_copies_of_reduced_gradients_are_no_layers_work() -> None:
    """Four layers of equal work, of 4 MiB each, are cut in the middle."""
    found = changed(training(TrainingJob(workers=4)), "pipeline(stages=2)")
    assert talks(found, Axis.DATA, 0) == talks(found, Axis.DATA, 2) == [8 << 20]


def test_each_worker_loads_its_own_batch(job: Callable[..., Graph]) -> None:
    found = changed(job(2, load_ns=30), "pipeline(stages=2)")
    assert spent(found, "kind=data") == [30, 30]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pipeline(stages=2, schedule='fast')", "no schedule is called 'fast'; there are gpipe"),
        ("pipeline(stages=1)", "give 2 stages or more"),
        ("pipeline(stages=4, microbatches=2, schedule='2bw')", "2BW with 4 stages"),
        ("pipeline(stages=2, microbatches=3)", "do not divide among the batches of 2 workers"),
        ("pipeline(stages=3, begins='1')", "3 pieces begin at one layer fewer, .*; 1 are named"),
    ],
)
def test_a_pipeline_that_cannot_work_is_refused(text: str, told: str) -> None:
    with pytest.raises(PacelineError, match=told):
        parse(text)


def test_workers_that_do_not_fill_the_stages_are_refused(job: Callable[..., Graph]) -> None:
    with pytest.raises(GraphError, match=r"workers\(count=6\)"):
        parse("pipeline(stages=3)").transform(job(4))


def test_of_cuts_about_as_good_the_one_that_passes_least_is_taken() -> None:
    """100 and 100, or 97 and 103; 88 and 112 is no cut to consider."""
    work, passing = [88, 9, 3, 100], [1, 4, 9, 0]
    assert balanced(work, 2) == (3,)
    assert about_balanced(work, passing, 2) == (2,)
    assert about_balanced(work, [4, 4, 4, 0], 2) == (3,)
    assert about_balanced([5, 5, 5, 5], [3, 1, 3, 0], 4) == (1, 2, 3)


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
