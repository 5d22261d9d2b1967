"""What a calibration says of a cluster: processors are machines like it, GPUs are not."""

import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.graph import (
    Axis,
    Collective,
    DeviceKind,
    DType,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
)
from paceline.measure import Calibration, MeasureError, Sweep
from paceline.predict import Question, predict

LINE = Sweep((1e6, 2e6, 4e6), (1e6, 2e6, 4e6))
MADE = Calibration("here", 2, 2, LINE, LINE, LINE, LINE, None)


def cluster(*kinds: DeviceKind) -> Cluster:
    hosts = tuple(Host(f"h{i}", Device(kind.name, kind)) for i, kind in enumerate(kinds))
    return Cluster(hosts, Link.both_ways(1e9))


def reducing() -> Graph:
    """Two workers that reduce a megabyte."""
    made = GraphBuilder(facts=Facts(world_size=2))
    group, instance = made.group("0", [0, 1], Axis.DATA), made.instance()
    for rank in (0, 1):
        made.op(
            "all_reduce", made.lane(rank, "comm", kind=LaneKind.COMM_THREAD), 1,
            kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE, size_bytes=1_000_000,
            dtype=DType.FLOAT32, group=group, instance=instance,
        )  # fmt: skip
    return made.build()


def test_hosts_that_are_processors_are_machines_like_the_calibrated_one() -> None:
    found = MADE.applied(cluster(DeviceKind.CPU, DeviceKind.GPU))
    assert [host.device.name for host in found.hosts] == ["here", "GPU"]


@pytest.mark.parametrize(
    ("kinds", "library"),
    [((DeviceKind.GPU, DeviceKind.GPU), ["nccl"]), ((DeviceKind.GPU, DeviceKind.CPU), [])],
)
def test_among_gpus_alone_a_calibrated_gloo_says_nothing_of_nccl(
    kinds: tuple[DeviceKind, ...], library: list[str]
) -> None:
    found = predict(reducing(), (), cluster(*kinds), Question(calibration=MADE))
    estimated = [r.split()[3] for r in found.rests_on if r.startswith("not measured here")]
    assert estimated == library


def test_a_calibration_of_one_worker_has_no_link() -> None:
    alone = Calibration("here", 2, 1, LINE, LINE, LINE, None, None)
    with pytest.raises(MeasureError, match="--workers 2 or more"):
        alone.link()
