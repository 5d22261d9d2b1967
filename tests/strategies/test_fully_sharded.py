"""DDP's replicas made those of FSDP2: the calls that it makes, and what is refused."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from paceline.cluster import Cluster, Host, Link
from paceline.cluster.files import device
from paceline.errors import GraphError
from paceline.graph import Collective, Graph, OpKind, check, load_graph
from paceline.graph.condense import Grain
from paceline.graph.facts import BlockHost
from paceline.graph.fully_sharded import blocks_of
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.graph.synthetic.training_lanes import MachineKind
from paceline.predict import predict
from paceline.predict.predicting import typical
from paceline.replay import replay
from paceline.strategies import parse, transformed

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
SHARDED = parse("fully_sharded")


def lan(workers: int, bytes_per_s: float = 1.25e9) -> Cluster:
    core = device("epyc-2c")
    return Cluster(tuple(Host(f"h{i}", core) for i in range(workers)), Link.both_ways(bytes_per_s))


def calls(graph: Graph) -> Counter[tuple[str, int, int]]:
    """Collectives by kind and bytes, of each rank."""
    ops = graph.ops
    rows = np.flatnonzero(ops.kind == OpKind.COLLECTIVE)
    return Counter(
        (Collective(int(ops.collective[row])).name, int(ops.size_bytes[row]), int(ops.rank[row]))
        for row in rows
    )


def straight(found: Counter[tuple[str, int, int]]) -> Counter[tuple[str, int, int]]:
    """The same with gloo's reductions, which are all-reduces, as we make them."""
    return Counter({(kind.replace("ALL_REDUCE", "ALL_TO_ALL"), size, rank): count
                    for (kind, size, rank), count in found.items()})  # fmt: skip


@pytest.mark.parametrize("machine", MachineKind)
def test_a_sharded_job_makes_the_calls_of_one_that_was_drawn_so(machine: MachineKind) -> None:
    plain, cut = (
        training(TrainingJob(parallel, machine, workers=4, steps=2))
        for parallel in (Parallel.DDP, Parallel.FSDP2)
    )
    made = check(SHARDED.transform(plain))
    assert calls(made) == straight(calls(cut))
    assert made.facts == cut.facts
    assert replay(made, prices=np.maximum(made.ops.dur_ns, 1)).step_ns > 0


def test_a_recorded_job_exchanges_what_its_twin_under_fsdp2_was_recorded_to() -> None:
    """The same model, recorded under DDP and under FSDP2 on another day. Gloo's reductions sent all
    gradients there, and half of them go straight to their owners here; beside that, steps differ by
    what Python and the machine did."""
    plain = load_graph(RESULTS / "strategies" / "mlp")
    twin = load_graph(RESULTS / "settings" / "mlp-fsdp2-x2-1000")
    step = typical(plain, Grain.LAYER, elsewhere=True)
    one_of = {key: count // 3 for key, count in calls(SHARDED.transform(step)).items()}
    steps = len(np.unique(twin.ops.step))
    assert one_of == {key: count // steps for key, count in straight(calls(twin)).items()}
    for rate in (125e6, 25e6):
        made = predict(plain, (SHARDED,), lan(2, rate))
        recorded = predict(twin, (), lan(2, rate))
        told, theirs = (each.by_class["communication"] for each in (made, recorded))
        half = sum(size * count for (kind, size, rank), count in one_of.items()
                   if (kind, rank) == ("ALL_TO_ALL", 0)) / 2  # fmt: skip
        assert theirs - told == pytest.approx(half / rate * 1e9, rel=0.03)
        assert made.step_ns + theirs - told == pytest.approx(recorded.step_ns, rel=0.12)


def handed_us(graph: Graph) -> list[float]:
    """How long the first rank takes to hand over each block."""
    ops = graph.ops
    rows = np.flatnonzero((ops.kind == OpKind.HOST) & (ops.rank == 0))
    named = [row for row in rows.tolist() if graph.text(int(ops.name[row])) == "hand over a block"]
    return [int(ops.dur_ns[row]) / 1e3 for row in named]


@pytest.mark.parametrize("machine", MachineKind)
def test_what_fsdp2_does_around_each_call_takes_the_thread_that_long(machine: MachineKind) -> None:
    """What lies outside of blocks is gathered once; on a device kernels hide the host."""
    plain = training(TrainingJob(machine=machine, workers=2, steps=1))
    host = BlockHost(100_000, 10_000, 40_000, 5_000)
    told = replace(plain, facts=replace(plain.facts, block_host=host))
    before, after = (handed_us(SHARDED.transform(graph)) for graph in (plain, told))
    more = Counter(round(b - a) for a, b in zip(before, after, strict=True))
    blocks = blocks_of([parameter.layer for parameter in plain.facts.parameters])
    expected: Counter[int] = Counter()
    for path, weights in blocks.items():
        expected[100 + 10 * len(weights)] += 2 if path else 1
        expected[40 + 5 * len(weights)] += 1
    assert more == (expected if machine is MachineKind.CPU else Counter({0: len(before)}))


def test_a_rank_holds_a_part_and_one_gathered_block_at_a_time() -> None:
    plain = load_graph(RESULTS / "strategies" / "mlp")
    before, after = (predict(plain, plan, lan(2)) for plan in ((), (SHARDED,)))
    assert before.memory is not None
    assert after.memory is not None
    assert after.memory.peak_bytes < 0.8 * before.memory.peak_bytes


def test_weights_outside_of_blocks_are_gathered_once() -> None:
    layers = ["stem", "blocks.0.a", "blocks.0.b.1", "blocks.1.a", ""]
    assert blocks_of(layers) == {"": [0, 4], "blocks.0": [1, 2], "blocks.1": [3]}
    job = training(TrainingJob(workers=2))
    facts = job.facts
    ends = tuple(replace(p, layer="") if p.layer == "0" else p for p in facts.parameters)
    made = check(SHARDED.transform(replace(job, facts=replace(facts, parameters=ends))))
    gathers = sum(count for (kind, _, rank), count in calls(made).items()
                  if (kind, rank) == ("ALL_GATHER", 0))  # fmt: skip
    assert gathers == 2 * 3 + 1


def test_more_workers_gather_among_more() -> None:
    step = transformed(training(TrainingJob(workers=2)), (parse("workers(count=4)"), SHARDED))
    assert step.facts.update_shards == 4
    assert {len(group.ranks) for group in step.groups if len(group.ranks) > 1} >= {4}


def test_what_is_cut_already_or_exchanges_nothing_is_refused() -> None:
    with pytest.raises(GraphError, match="updates a part of the parameters already"):
        SHARDED.transform(training(TrainingJob(Parallel.FSDP2)))
    with pytest.raises(GraphError, match=r"replicas are groups of \[1\] ranks"):
        SHARDED.transform(training(TrainingJob(workers=1)))
    flat = training(TrainingJob(workers=2))
    layers = tuple(replace(p, layer="") for p in flat.facts.parameters)
    with pytest.raises(GraphError, match="numbers no blocks"):
        SHARDED.transform(replace(flat, facts=replace(flat.facts, parameters=layers)))


def test_rows_that_workers_cannot_share_evenly_are_padded() -> None:
    """FSDP2 gathers as much of each rank as of the one with most."""
    job = training(TrainingJob(workers=4))
    facts = job.facts
    shapes = tuple(replace(p, size_bytes=4 * 5, shape=(5,)) for p in facts.parameters)
    made = SHARDED.transform(replace(job, facts=replace(facts, parameters=shapes)))
    sizes = {size for _, size, _ in calls(made)}
    per_block = len(facts.parameters) // len(blocks_of([p.layer for p in facts.parameters]))
    assert sizes == {per_block * 4 * 8}


@pytest.mark.parametrize(
    "text", ["partition(parts=2)", "priority", "overlap_update", "early_update"]
)
def test_beside_a_codec_what_else_changes_the_exchange_of_a_sharded_job_is_refused(
    text: str,
) -> None:
    packed = parse("int8").transform(training(TrainingJob(Parallel.FSDP2)))
    assert "Record a job under DDP" in str(parse(text).refusal(packed))
