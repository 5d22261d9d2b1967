"""Workloads: the load, sizes and places that they promise."""

import numpy as np
import pytest

from paceline.wire.errors import WireError
from paceline.wire.fabric import Fabric, Tolerance, Training, incast, training, web


def test_web_traffic_loads_the_hosts_links_as_asked() -> None:
    fabric = Fabric()
    flows = web(fabric, 0.5, 20_000, seed=3)
    seconds = flows[-1].start_ns / 1e9
    offered = 8 * sum(flow.size_bytes for flow in flows) / seconds
    assert offered == pytest.approx(0.5 * fabric.hosts * fabric.host_bits_per_s, rel=0.05)
    assert np.median([flow.size_bytes for flow in flows]) == pytest.approx(73_000, rel=0.05)


def test_every_worker_pushes_every_bucket_and_the_last_first_layers_go_first() -> None:
    job = Training(workers=8, bucket_bytes=(5, 6, 7), rounds=2)
    flows = training(Fabric(), job, Tolerance(0.1, 0.5))
    assert len(flows) == 16 * 8 * 3 * 2
    assert [flow.priority for flow in flows[:3]] == [2, 1, 0]
    assert len({flow.dst for flow in flows}) == 16
    assert not {flow.dst for flow in flows} & {flow.src for flow in flows}
    assert {(flow.loss_budget, flow.important) for flow in flows} == {(0.1, 0.5)}


def test_incast_comes_round_by_round() -> None:
    flows = incast(3, 100, rounds=2, period_ns=50)
    assert [(flow.src, flow.dst, flow.start_ns) for flow in flows] == [
        (1, 0, 0), (2, 0, 0), (3, 0, 0), (1, 0, 50), (2, 0, 50), (3, 0, 50),
    ]  # fmt: skip


def test_jobs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(WireError, match="need more than 144 hosts"):
        training(Fabric(), Training(workers=144))
    with pytest.raises(WireError, match="between 0 and 1"):
        web(Fabric(), 1.5, 10)
