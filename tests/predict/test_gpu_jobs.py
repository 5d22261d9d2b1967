"""Recorded jobs of several GPUs: degree, buckets, links and device, one change beside another."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from paceline.cluster import Cluster, parse
from paceline.cost.ported import kernel_rows
from paceline.graph import NONE, Graph, OpKind, check
from paceline.predict import Prediction, predict
from paceline.trace.build import build
from paceline.trace.readers import read_all
from paceline.trace.readers.source import sources

H100 = "device(name='h100')"
ONE_BUCKET = "buckets(size_bytes=1073741824)"


@pytest.fixture(scope="module")
def one_of_two(real_traces: Path) -> Graph:
    """Rank 0 of two A100 under DDP, three steps."""
    return build(read_all(sources([real_traces / "nccl-metadata/nccl_data.json.gz"])))


@pytest.fixture(scope="module")
def eight(real_traces: Path) -> Graph:
    """All ranks of a DLRM job on eight V100."""
    return build(read_all(sources([real_traces / "dlrm-8xV100"])))


@cache
def hosts(gbit_per_s: int, count: int = 4) -> Cluster:
    return parse(
        f"{{hosts: {{count: {count}, device: a100-80}}, link: {{rate: {gbit_per_s}Gbps}}}}"
    )


def kernels_ns(found: Prediction, rank: int = 0) -> int:
    """Recorded work of one rank's device in the predicted step."""
    graph = found.timeline.graph
    rows = kernel_rows(graph)
    rows = rows[graph.ops.rank[rows] == rank]
    return int(graph.ops.dur_ns[rows].sum())


def exchanged(graph: Graph) -> np.ndarray:
    return np.flatnonzero(graph.ops.kind == OpKind.COLLECTIVE)


def test_degree_buckets_links_and_device_are_changed_at_once(one_of_two: Graph) -> None:
    plan = ["workers(count=4)", ONE_BUCKET, H100]
    found = predict(one_of_two, plan, hosts(100))
    graph = check(found.timeline.graph)
    assert found.workers == 4
    talks = exchanged(graph)
    assert set(graph.ops.rank[talks].tolist()) == {0, 1, 2, 3}
    held = sum(parameter.size_bytes for parameter in one_of_two.facts.parameters)
    assert int(graph.ops.size_bytes[talks].max()) == held


def test_another_device_shortens_kernels_and_leaves_exchanges(one_of_two: Graph) -> None:
    plain, moved = (
        predict(one_of_two, ["workers(count=4)", *more], hosts(100)) for more in ([], [H100])
    )
    assert kernels_ns(moved) < 0.7 * kernels_ns(plain)
    took = [np.sort(each.timeline.graph.ops.dur_ns[exchanged(each.timeline.graph)])
            for each in (plain, moved)]  # fmt: skip
    assert took[0].tolist() == took[1].tolist()


def test_more_replicas_change_no_kernel_and_wait_for_the_same_exchange(one_of_two: Graph) -> None:
    few, many = (
        predict(one_of_two, [f"workers(count={count})", H100], hosts(100, 8)) for count in (2, 8)
    )
    assert kernels_ns(few) == pytest.approx(kernels_ns(many), rel=0.02)
    assert many.step_ns >= few.step_ns


@pytest.mark.parametrize("plan", [[H100], ["workers(count=4)"], ["workers(count=4)", ONE_BUCKET]])
def test_what_the_recording_shows_of_overlap_holds_after_every_change(
    one_of_two: Graph, plan: Sequence[str]
) -> None:
    found = predict(one_of_two, plan, hosts(100) if len(plan) > 1 or plan != [H100] else None)
    assert found.timeline.graph.facts.slowed_beside == pytest.approx(1.08, abs=0.01)


def test_every_rank_of_a_job_is_carried_to_another_device_and_still_meets(eight: Graph) -> None:
    before, after = predict(eight), predict(eight, [H100])
    graph = check(after.timeline.graph)
    for rank in range(8):
        assert kernels_ns(after, rank) < kernels_ns(before, rank)
    talks = exchanged(graph)
    joined = graph.ops.instance[talks]
    _, members = np.unique(joined[joined != NONE], return_counts=True)
    assert set(members.tolist()) == {8}
    assert after.step_ns <= before.step_ns  # whose host decides, not its kernels


def step_over_links_ns(graph: Graph, gbit_per_s: float) -> int:
    cluster = parse(f"{{hosts: 8, link: {{rate: {gbit_per_s}Gbps}}}}")
    found = predict(graph, [], cluster)
    talks = found.timeline.graph.ops.kind == OpKind.COLLECTIVE
    assert found.step_ns >= found.timeline.end_ns[talks].max()
    return found.step_ns


def test_slower_links_only_make_a_recorded_job_of_eight_gpus_longer(eight: Graph) -> None:
    steps = [step_over_links_ns(eight, rate) for rate in (100, 10, 2, 0.1)]
    assert steps == sorted(steps)
    assert steps[-1] > 3 * steps[0]
