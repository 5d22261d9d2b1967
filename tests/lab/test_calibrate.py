"""The processor cost of a byte, from the time of an all-reduce."""

import pytest

from paceline.lab import tcp_cost
from paceline.lab.calibrate import SIZE_BYTES


def test_the_cost_is_all_cores_time_over_all_bytes_sent() -> None:
    found = tcp_cost(0.4, workers=4, cores=2, payload_share=1.0)
    sent_by_all = 4 * 1.5 * SIZE_BYTES
    assert found.cpu_ns_per_byte == pytest.approx(0.4 * 2 / sent_by_all * 1e9)
    assert found.limited_by_cores


def test_where_the_links_are_the_limit_it_is_said() -> None:
    links_alone = 1.5 * SIZE_BYTES / 125e6
    assert not tcp_cost(links_alone, workers=4, cores=2, payload_share=1.0).limited_by_cores
