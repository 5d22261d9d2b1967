"""Gradients inferred from what exchanges waited for."""

from pathlib import Path

import numpy as np

from paceline.cluster import parse
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
from paceline.graph.bucket_gradients import with_bucket_gradients
from paceline.predict import predict
from paceline.strategies import parse as change
from paceline.trace.build import build
from paceline.trace.readers import read_all
from paceline.trace.readers.source import sources

MS = 1_000_000


def drawn(*, sizes: tuple[tuple[int, ...], ...] = ((100, 50), (100, 50)), ranks: int = 2) -> Graph:
    """Two streams a rank; in each step (a row of `sizes`) each exchange waits for three kernels."""
    b = GraphBuilder(facts=Facts(world_size=ranks))
    group = b.group("0", range(ranks), Axis.DATA)
    lanes = [
        [b.lane(rank, name, kind=LaneKind.STREAM) for name in ("work", "nccl")]
        for rank in range(ranks)
    ]
    for step, row in enumerate(sizes):
        instances = [b.instance() for _ in row]
        for work, talk in lanes:
            sent = []
            for size, instance in zip(row, instances):
                made = [b.op("mm", work, MS, step=step, phase=Phase.BACKWARD) for _ in range(3)]
                sent.append(b.op("nccl", talk, MS, after=made, dep=DepKind.GRADIENT, step=step,
                                 kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE,
                                 size_bytes=size, group=group, instance=instance))  # fmt: skip
            b.op("sgd", work, MS, after=sent, dep=DepKind.GRADIENT, step=step, phase=Phase.UPDATE)
    return b.build()


def test_each_work_that_an_exchange_waited_for_readies_a_part_of_its_bytes() -> None:
    found = with_bucket_gradients(drawn())
    assert [p.size_bytes for p in found.facts.parameters] == [34, 33, 33, 18, 16, 16]
    assert [len(bucket) for bucket in found.facts.buckets] == [3, 3]
    first = found.ops.tensor[found.ops.step == 0]
    assert [found.names[t] for t in first[first != NONE][:3]] == [
        "gradient 0.0", "gradient 0.1", "gradient 0.2",
    ]  # fmt: skip


def test_buckets_of_such_a_job_are_cut_anew() -> None:
    graph = with_bucket_gradients(drawn())
    whole = check(change("buckets(size_bytes=1000)").transform(graph))
    talks = whole.ops.kind == OpKind.COLLECTIVE
    assert whole.ops.size_bytes[talks].tolist() == [150] * 4
    fine = check(change("buckets(size_bytes=34)").transform(graph))
    assert (fine.ops.kind == OpKind.COLLECTIVE).sum() > talks.sum()


def test_steps_that_exchange_differently_tell_nothing() -> None:
    graph = drawn(sizes=((100, 50), (100, 60)))
    assert with_bucket_gradients(graph) is graph


def test_exchanges_of_unknown_size_tell_nothing() -> None:
    graph = drawn(sizes=((0, 50), (0, 50)))
    assert with_bucket_gradients(graph) is graph


def test_a_job_without_exchanges_stays_as_it_is() -> None:
    b = GraphBuilder()
    b.op("mm", b.lane(), 5)
    graph = b.build()
    assert with_bucket_gradients(graph) is graph


def test_a_real_nccl_job_takes_other_buckets_workers_and_links(real_traces: Path) -> None:
    graph = build(read_all(sources([real_traces / "nccl-metadata/nccl_data.json.gz"])))
    assert graph.facts.parameters
    fast, slow = (
        parse(f"{{hosts: {{count: 4, device: a100-80}}, link: {{rate: {rate}Gbps}}}}")
        for rate in (100, 1)
    )
    plain, slower = (predict(graph, ["workers(count=4)"], at).step_ns for at in (fast, slow))
    assert slower > plain
    whole = "buckets(size_bytes=1073741824)"
    one_bucket = predict(graph, ["workers(count=4)", whole], slow)
    talks = one_bucket.timeline.graph.ops.kind == OpKind.COLLECTIVE
    sizes = one_bucket.timeline.graph.ops.size_bytes[talks]
    held = sum(parameter.size_bytes for parameter in graph.facts.parameters)
    assert np.max(sizes) == held
    assert one_bucket.step_ns >= slower  # nothing is sent beside the backward pass any more
