"""Prices in a lab stay what they are, to the ns: the published ones rest on them."""

import pytest

from paceline.cluster import Cluster, Device, Host, Link, Ring, Star, Topology
from paceline.cluster.machine import Machine
from paceline.place.pipeline import LayerCost, PipelinePlan, price_in_lab
from paceline.runtime.stages import PipelineSchedule, Shape

S = PipelineSchedule
STAGES = [
    LayerCost(f"stage {i}", 3_000_000, 6_000_000, 400_000, 1000, 60, 250_000, 250_000)
    for i in range(3)
]
MACHINE = Machine(
    cores=2.0,
    cpu_ns_per_byte=4.9,
    message_ns=60_000,
    send_ns_per_byte=1.1,
    rested=1.05,
    late_ns=300_000,
)


@pytest.mark.parametrize(
    ("topology", "schedule", "step_ns"),
    [
        (Star(), S.GPIPE, 175_614_131),
        (Star(), S.ONE_F_ONE_B, 188_441_199),
        (Star(), S.TWO_BUFFERED, 138_791_196),
        (Ring(), S.GPIPE, 169_203_360),
        (Ring(), S.ONE_F_ONE_B, 171_049_928),
        (Ring(), S.TWO_BUFFERED, 134_117_500),
    ],
)
def test_a_plan_in_the_lab_costs_what_it_did(
    topology: Topology, schedule: PipelineSchedule, step_ns: int
) -> None:
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(3))
    cluster = Cluster(hosts, Link(1.25e8, 2.5e7, buffer_bytes=120_000), topology)
    found = price_in_lab(PipelinePlan(schedule, Shape(3, 6), 4), STAGES, cluster, MACHINE)
    assert found.replayed_step_ns == step_ns
