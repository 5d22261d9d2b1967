"""`hierarchical`: gradients cross the network once a host."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.errors import GraphError
from paceline.graph import Collective, DepKind, Graph, OpKind, check
from paceline.graph.hierarchy import Levels
from paceline.graph.links import Links
from paceline.graph.synthetic import MachineKind, TrainingJob, training
from paceline.predict import predict
from paceline.strategies import parse

FOUR = TrainingJob(workers=4, bucket_bytes=1 << 30)


def calls_of(graph: Graph, rank: int) -> list[tuple[Collective, tuple[int, ...]]]:
    rows = np.flatnonzero((graph.ops.kind == OpKind.COLLECTIVE) & (graph.ops.rank == rank))
    ops, groups = graph.ops, graph.groups
    return [(Collective(ops.collective[op]), groups[ops.group[op]].ranks) for op in rows]


def test_the_first_of_a_host_exchanges_for_all_of_it() -> None:
    made = check(parse("hierarchical(on_host=2)").transform(training(FOUR)))
    assert calls_of(made, 2) == [
        (Collective.REDUCE, (2, 3)),
        (Collective.ALL_REDUCE, (0, 2)),
        (Collective.BROADCAST, (2, 3)),
    ]
    assert calls_of(made, 3) == [(Collective.REDUCE, (2, 3)), (Collective.BROADCAST, (2, 3))]


def test_a_host_hands_on_inside_what_came_from_across() -> None:
    made = parse("hierarchical(on_host=2)").transform(training(FOUR))
    links, how = Links.of(made), made.ops.collective
    data = links.where(links.kind == DepKind.DATA)
    talks = data.where((how[data.op] == Collective.BROADCAST) & (made.ops.rank[data.op] == 2))
    assert how[talks.src].tolist() == [Collective.ALL_REDUCE]


def test_on_streams_each_exchanges_its_share() -> None:
    job = TrainingJob(workers=4, bucket_bytes=1 << 30, machine=MachineKind.GPU)
    made = check(parse("hierarchical(on_host=2)").transform(training(job)))
    assert calls_of(made, 3) == [
        (Collective.REDUCE_SCATTER, (2, 3)),
        (Collective.ALL_REDUCE, (1, 3)),
        (Collective.ALL_GATHER, (2, 3)),
    ]
    across = made.ops.collective == Collective.ALL_REDUCE
    whole = made.ops.collective == Collective.ALL_GATHER
    assert made.ops.size_bytes[across].max() * 2 == made.ops.size_bytes[whole].max()


def test_it_pays_where_hosts_are_fast_inside_and_the_network_is_slow() -> None:
    fast, slow = Link.both_ways(1e12), Link.both_ways(1e8)
    hosts = tuple(
        Host(f"h{i}", Device("core", memory_bytes_per_s=1e10), devices=4, fabric=fast)
        for i in range(2)
    )
    graph = training(TrainingJob(workers=8))
    plain, levels = (
        predict(graph, plan, Cluster(hosts, slow)).step_ns
        for plan in ([], ["hierarchical(on_host=4)"])
    )
    assert levels < plain


def test_workers_that_do_not_fill_hosts_are_refused() -> None:
    with pytest.raises(GraphError, match="4 workers do not stand on hosts of 3"):
        parse("hierarchical(on_host=3)").transform(training(FOUR))


def test_choices_divide_the_workers() -> None:
    found = [str(one) for one in type(parse("hierarchical(on_host=2)")).choices(training(FOUR))]
    assert found == ["hierarchical(on_host=2)", "hierarchical(on_host=4)"]


def test_a_rank_knows_its_host_and_with_whom_it_exchanges() -> None:
    ranks = (1, 3, 5, 7)
    assert Levels.of(5, ranks, 2, led=True) == Levels((5, 7), (1, 5))
    assert Levels.of(7, ranks, 2, led=True) == Levels((5, 7), ())
    assert Levels.of(7, ranks, 2, led=False) == Levels((5, 7), (3, 7))
    assert Levels.of(7, ranks, 4, led=True) == Levels(ranks, ())


def test_where_nothing_tells_what_reduces_gradients_it_is_refused(
    recording: Callable[..., Graph],
) -> None:
    with pytest.raises(GraphError, match="cannot be done host by host"):
        parse("hierarchical(on_host=2)").transform(recording(told=False))


@pytest.mark.live
@pytest.mark.slow
def test_four_workers_on_two_hosts_learn_the_same_and_send_what_was_predicted(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    plan = "hierarchical(on_host=2)"
    worker = Path(__file__).parent / "contract" / "live" / "contract_worker.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4"]
    subprocess.run(
        [*command, str(worker), str(tmp_path), "20", plan], check=True, capture_output=True
    )
    for rank in range(4):
        told = json.loads((tmp_path / f"rank-{rank}.json").read_text())
        assert told[plan]["losses"] == pytest.approx(told[""]["losses"], rel=1e-5)
        assert told[plan]["sent"]["calls"] == (3 if rank % 2 == 0 else 2)
