"""More than a port can carry: what the lab's switch drops, and what it delays."""

from dataclasses import replace

import pytest

from paceline.lab.overload import Load, overload
from paceline.wire.overload import Overload, Stream, from_json, to_json

LOAD = Load(bits_per_s=20e6, seconds=1.0)


@pytest.mark.net
@pytest.mark.live
@pytest.mark.needs("root", "namespaces", "iproute2", "bpf")
def test_a_switch_drops_what_is_unimportant_and_a_queue_drops_both() -> None:
    marked, plain = overload(LOAD), overload(replace(LOAD, switch=None))
    assert marked.important.lost_share == 0
    assert marked.important.max_ns > marked.important.p50_ns > 0
    assert marked.other.got > 0
    if min(marked.offered, plain.offered) > 1.15:  # busy cores may make senders offer less
        assert marked.other.lost_share > 0.05
        assert plain.important.lost_share > 0


def test_an_overload_crosses_to_its_processes_as_text() -> None:
    load = Overload((Stream(4, 1e6), Stream(8, 2e6)), 1.5)
    assert from_json(to_json(load)) == load
