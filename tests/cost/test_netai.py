"""What-if of a fully used network: "Is Network the Bottleneck of Distributed Training?" (2020).

Gradients are walked in the order they come and sent off when 5 ms or 64 MiB have gathered; one
queue serves all-reduces that cost 2 S (N - 1) / N over the bandwidth plus N - 1 vector additions of
S / N. Scaling factor: batch time over batch time plus what the network adds after backward.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from paceline.cluster import parse
from paceline.cost import Curve, Library, Rates, prices
from paceline.graph import Collective, DType, Graph, GraphBuilder, LaneKind, OpKind, Phase
from paceline.graph.kinds import UNPRICED
from paceline.replay import replay

SHARED = Path(os.environ.get("PACELINE_SHARED", Path(__file__).parents[3] / "shared"))
DATA = SHARED / "data" / "netai"
WORKERS = 64
BATCH_MS = 128.0  # 32 images at the 250 a second of one V100
PUBLISHED = {"100Gbps": 0.995, "40Gbps": 0.994, "25Gbps": 0.910, "10Gbps": 0.540, "1Gbps": 0.076}

pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"no data in {DATA}")


def gradients() -> list[tuple[int, int]]:
    """(nanoseconds of backward, bytes) of each parameter, in the order they come."""
    lines = (DATA / "resnet50.bk.log").read_text().splitlines()[3:]
    rows = [line.split(",") for line in lines if line]
    return [(round(float(us) * 1000), int(size)) for us, size in rows]


def additions() -> Curve:
    table = np.loadtxt(DATA / "cuda_vec_add.log", delimiter=",")
    return Curve.through(table[:, 0], table[:, 1] * 1e9)


def drawn() -> Graph:
    """One worker's backward pass and its queue of all-reduces; the 64 workers are alike."""
    b = GraphBuilder({"world_size": WORKERS})
    gpu = b.lane(name="stream")
    queue = b.lane(name="all-reduce", kind=LaneKind.COMM_THREAD)
    group = b.group("data", range(WORKERS))
    waited, gathered, rows = 0, 0, gradients()
    for i, (took, size) in enumerate(rows):
        op = b.op(f"backward {i}", gpu, took, phase=Phase.BACKWARD, dtype=DType.FLOAT32)
        waited, gathered = waited + took, gathered + size
        if waited >= 5_000_000 or gathered >= 64 * 2**20 or i == len(rows) - 1:
            b.op(
                "all-reduce", queue, UNPRICED, after=[op], kind=OpKind.COLLECTIVE,
                collective=Collective.ALL_REDUCE, size_bytes=gathered, group=group,
            )  # fmt: skip
            waited = gathered = 0
    return b.build()


def replayed(bandwidth: str) -> float:
    cluster = parse(f"{{hosts: {WORKERS}, link: {{rate: {bandwidth}}}}}")
    library = Library("ideal", {Collective.ALL_REDUCE: "ring"}, reduce=additions())
    graph = drawn()
    step_ns = replay(graph, prices=prices(graph, cluster, Rates(library=library)).dur_ns).step_ns
    backward_ns = sum(took for took, _ in gradients())
    return BATCH_MS / (BATCH_MS + (step_ns - backward_ns) / 1e6)


def recurrence(bits_per_s: float) -> float:
    """The same without graph, price or replay."""
    curve, n = additions(), WORKERS
    now = free = waited = gathered = 0.0
    rows = gradients()
    for i, (took, size) in enumerate(rows):
        now, waited, gathered = now + took, waited + took, gathered + size
        if waited >= 5e6 or gathered >= 64 * 2**20 or i == len(rows) - 1:
            sent = 2 * gathered * 8 * (n - 1) / n / bits_per_s * 1e9
            added = (n - 1) * float(np.interp(gathered / n, curve.sizes, curve.times_ns))
            free = max(free, now) + sent + added
            waited = gathered = 0.0
    return BATCH_MS / (BATCH_MS + (free - now) / 1e6)


@pytest.mark.parametrize("bandwidth", PUBLISHED)
def test_replay_gives_the_recurrence_and_the_known_table_to_three_decimals(bandwidth: str) -> None:
    found = replayed(bandwidth)
    assert found == pytest.approx(recurrence(float(bandwidth[:-4]) * 1e9), abs=5e-6)
    assert round(found, 3) == PUBLISHED[bandwidth]
