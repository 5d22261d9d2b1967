"""Changes that go over all ranks and steps at once make the graph that a change of one rank's step
after the other made. The digests are of graphs that such an implementation made: a bucket is handed
over, waited for, copied back and updated late, on processors and on devices."""

from hashlib import blake2b

import numpy as np
import pytest

from paceline.graph import Graph
from paceline.graph.synthetic import MachineKind, Parallel, TrainingJob, training
from paceline.strategies import parse


def digest(graph: Graph) -> str:
    state = blake2b(digest_size=8)
    for column in (*vars(graph.ops).values(), *vars(graph.deps).values()):
        state.update(np.ascontiguousarray(column).astype(np.int64).tobytes())
    return state.hexdigest()


@pytest.mark.parametrize(
    ("machine", "workers", "plan", "wanted"),
    [
        (MachineKind.CPU, 2, "buckets(size_bytes=2000000)", "638ab4b0f2ce1454"),
        (MachineKind.CPU, 2, "overlap_update", "01d274011935a1e2"),
        (MachineKind.CPU, 2, "buckets(size_bytes=2000000)+overlap_update", "fcc72a54f9bf1eca"),
        (
            MachineKind.CPU,
            2,
            "buckets(size_bytes=5000000)+partition(parts=3)+overlap_update",
            "b4f21bd20883c379",
        ),
        (MachineKind.GPU, 2, "buckets(size_bytes=2000000)", "a7974a138ef29277"),
        (MachineKind.GPU, 2, "overlap_update", "a33d32bbabd306a7"),
        (MachineKind.GPU, 2, "buckets(size_bytes=2000000)+overlap_update", "57344ff95dc89737"),
        (
            MachineKind.GPU,
            2,
            "buckets(size_bytes=5000000)+partition(parts=3)+overlap_update",
            "d253cd06edd46a3a",
        ),
    ],
)
def test_a_change_makes_the_graph_that_it_always_made(
    machine: MachineKind, workers: int, plan: str, wanted: str
) -> None:
    made = training(TrainingJob(Parallel.DDP, machine, workers=workers, steps=3, jitter=0.1))
    for change in plan.split("+"):
        made = parse(change).transform(made)
    assert digest(made) == wanted
