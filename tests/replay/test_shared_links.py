"""Replay with flows: collectives that overlap share links, in both engines alike."""

import numpy as np
import pytest

from paceline.cluster import Cluster, parse
from paceline.errors import ReplayError
from paceline.graph import Collective, Graph, GraphBuilder, LaneKind, OpKind
from paceline.graph.kinds import UNPRICED
from paceline.imagine.transformer import Degrees, Training, Transformer, describe
from paceline.replay import Engine, NetworkModel, replay

ENGINES = (Engine.NATIVE, Engine.REFERENCE)
STAR = parse("{hosts: 4, link: {rate: 8Gbps}}")  # 8 MB take 8 ms, and gloo itself 0.2 ms


def overlapping(pairs: list[tuple[int, int]], late_ns: int = 0) -> Graph:
    """All-reduces of 8 MB, one a pair of ranks, each in lanes of its own; the last begins late."""
    b = GraphBuilder()
    for i, pair in enumerate(pairs):
        group, instance = b.group(f"pair {i}", pair), b.instance()
        for rank in pair:
            lane = b.lane(rank=rank, name=f"comm {i}", kind=LaneKind.COMM_THREAD)
            wait = b.op("wait", lane, late_ns if i == len(pairs) - 1 else 0, kind=OpKind.MARKER)
            b.op(
                "sum", lane, UNPRICED, after=[wait], kind=OpKind.COLLECTIVE, group=group,
                collective=Collective.ALL_REDUCE, size_bytes=8_000_000, instance=instance,
            )  # fmt: skip
    return b.build()


def times(graph: Graph, cluster: Cluster, network: NetworkModel) -> list[float]:
    ends = [
        replay(graph, cluster, network=network, engine=engine).end_ns.tolist() for engine in ENGINES
    ]
    assert ends[0] == ends[1]
    last = np.array(ends[0])[graph.ops.kind == OpKind.COLLECTIVE]
    return [round(ms, 1) for ms in (last / 1e6).tolist()]


@pytest.mark.needs("native")
def test_two_all_reduces_on_the_same_links_take_twice_as_long() -> None:
    graph = overlapping([(0, 1), (0, 1)])
    assert times(graph, STAR, NetworkModel.CLOSED) == [8.2] * 4
    assert times(graph, STAR, NetworkModel.FLOWS) == [16.2] * 4


@pytest.mark.needs("native")
def test_all_reduces_on_different_links_do_not_disturb_each_other() -> None:
    graph = overlapping([(0, 1), (2, 3)])
    assert times(graph, STAR, NetworkModel.FLOWS) == times(graph, STAR, NetworkModel.CLOSED)


@pytest.mark.needs("native")
def test_a_late_one_shares_only_what_is_left() -> None:
    ends = times(overlapping([(0, 1), (0, 1)], late_ns=4_000_000), STAR, NetworkModel.FLOWS)
    assert ends == [12.2, 12.2, 16.2, 16.2]


@pytest.mark.needs("native")
def test_messages_between_pipeline_stages_run_alike_in_both_engines() -> None:
    job = describe(Transformer(8, 64, 4, 32, vocab=128), Degrees(pipeline=2), Training(16))
    cluster = parse("{hosts: {count: 2, device: v100}, link: {rate: 1Gbps}}")
    steps = [replay(job, cluster, network=NetworkModel.FLOWS, engine=e).step_ns for e in ENGINES]
    assert steps[0] == steps[1] >= replay(job, cluster).step_ns * 0.99


def test_flows_need_a_cluster() -> None:
    with pytest.raises(ReplayError, match="needs a cluster"):
        replay(overlapping([(0, 1)]), network=NetworkModel.FLOWS)


@pytest.mark.needs("native")
def test_a_collective_whose_partners_are_not_drawn_is_carried_alike() -> None:
    b = GraphBuilder()
    lane = b.lane(rank=0, kind=LaneKind.COMM_THREAD)
    b.op("sum", lane, UNPRICED, kind=OpKind.COLLECTIVE, group=b.group("pair", (0, 1)),
         collective=Collective.ALL_REDUCE, size_bytes=8_000_000)  # fmt: skip
    b.op("idle", b.lane(rank=1), 1)
    assert times(b.build(), STAR, NetworkModel.FLOWS) == [8.2]
