"""A job of many GPUs carried to links so slow that its threads meet in another order."""

from pathlib import Path

import pytest

from paceline.cluster import parse
from paceline.graph import Graph, OpKind
from paceline.predict import predict
from paceline.trace.build import build
from paceline.trace.readers import read_all
from paceline.trace.readers.source import sources


@pytest.fixture(scope="module")
def eight(real_traces: Path) -> Graph:
    """All ranks of a DLRM job on eight V100."""
    return build(read_all(sources([real_traces / "dlrm-8xV100"])))


def step_ns(graph: Graph, gbit_per_s: float) -> int:
    cluster = parse(f"{{hosts: 8, link: {{rate: {gbit_per_s}Gbps}}}}")
    found = predict(graph, [], cluster)
    talks = found.timeline.graph.ops.kind == OpKind.COLLECTIVE
    assert found.step_ns >= found.timeline.end_ns[talks].max()
    return found.step_ns


def test_slower_links_only_make_a_recorded_job_of_eight_gpus_longer(eight: Graph) -> None:
    steps = [step_ns(eight, rate) for rate in (100, 10, 2, 0.1)]
    assert steps == sorted(steps)
    assert steps[-1] > 3 * steps[0]
