"""Settings of an end of the transport, and what it is said to cost."""

import json
from collections.abc import Sequence

import pytest

from paceline.cluster import Cluster
from paceline.machine import usable_cores
from paceline.wire import Tuning


def test_a_links_window_is_what_it_carries_in_a_millisecond_and_never_below_a_short_queues() -> (
    None
):
    assert Tuning.of_link(1e9) == Tuning(link_bits_per_s=1e9, window_bytes=125_000)
    assert Tuning.of_link(1e10).window_bytes == 1_250_000
    assert Tuning.of_link(1e8) == Tuning(link_bits_per_s=1e8)


@pytest.mark.needs("torch", "native")
def test_a_byte_of_it_costs_all_cores_time_over_all_bytes_sent() -> None:
    from paceline.wire.torch_costs import SIZE_BYTES, datagram_cost

    def said(cluster: Cluster, command: Sequence[str]) -> str:
        assert cluster.workers == 2 * usable_cores()
        return "gloo says\n" + json.dumps({"carried": [0.3, 0.2, 0.4]})

    sent = 2 * (1 - 1 / (2 * usable_cores())) * SIZE_BYTES
    found = datagram_cost(said)
    assert found.value == pytest.approx(0.2e9 / 2 / sent)
    assert (found.low, found.high) == (0, pytest.approx(0.3e9 / 2 / sent))
