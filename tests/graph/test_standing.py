"""One recorded rank that stands for all replicas of a job."""

from pathlib import Path

import pytest

from paceline.cluster import parse
from paceline.errors import GraphError
from paceline.graph import Axis, Collective, DepKind, Facts, Graph, GraphBuilder, OpKind, check
from paceline.graph.replicas import with_replicas
from paceline.graph.standing import standing
from paceline.predict import predict
from paceline.trace.build import build
from paceline.trace.readers import read_all
from paceline.trace.readers.source import sources


def one_of(world: int, axis: Axis = Axis.DATA, rank: int = 1) -> Graph:
    """One rank of a job: work, an all-reduce of its gradients, the update."""
    b = GraphBuilder(facts=Facts(world_size=world))
    main, talk = b.lane(rank, "main"), b.lane(rank, "talk")
    group = b.group("0", (rank,), axis)
    made = b.op("backward", main, 1000)
    sent = b.op("all_reduce", talk, 700, after=[made], dep=DepKind.GRADIENT, group=group,
                kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE, size_bytes=10**6,
                instance=b.instance())  # fmt: skip
    b.op("update", main, 100, after=[sent], dep=DepKind.GRADIENT)
    return b.build()


def test_a_lone_rank_becomes_as_many_replicas_as_are_wanted() -> None:
    made = check(with_replicas(one_of(2), 3))
    assert made.ranks == (0, 1, 2)
    assert made.world_size == 3
    talks = made.ops.kind == OpKind.COLLECTIVE
    assert len(set(made.ops.instance[talks].tolist())) == 1
    assert [group.ranks for group in made.groups] == [(0, 1, 2)]
    assert made.facts.copies_of_one


def test_its_exchange_is_priced_for_the_cluster_whatever_it_waited_for() -> None:
    cluster = parse("{hosts: {count: 2, device: a100-80}, link: {rate: 10Gbps}}")
    found = predict(one_of(2), ["workers(count=2)"], cluster)
    assert found.workers == 2
    assert found.step_ns > 800_000  # 1 MB over 1.25 GB/s, where 700 ns were recorded
    assert any(line.startswith("one rank was recorded") for line in found.rests_on)


@pytest.mark.parametrize("axis", [Axis.TENSOR, Axis.PIPELINE, Axis.NONE])
def test_a_rank_of_another_sort_of_group_stands_for_nobody(axis: Axis) -> None:
    graph = one_of(2, axis)
    assert standing(graph) is graph
    with pytest.raises(GraphError):
        with_replicas(graph, 4)


def test_a_whole_job_of_one_stays_as_it_is() -> None:
    graph = one_of(1, rank=0)
    assert standing(graph) is graph


def test_a_real_trace_of_one_gpu_of_two_is_carried_to_eight(real_traces: Path) -> None:
    graph = build(read_all(sources([real_traces / "nccl-metadata/nccl_data.json.gz"])))
    steps = {
        rate: predict(graph, ["workers(count=8)"], parse(
            f"{{hosts: {{count: 8, device: a100-80}}, link: {{rate: {rate}Gbps}}}}"
        )).step_ns
        for rate in (1, 400)
    }  # fmt: skip
    recorded = predict(graph).step_ns
    assert steps[400] == pytest.approx(recorded, rel=0.1)  # whose exchange was hidden
    assert steps[1] > 2 * recorded
