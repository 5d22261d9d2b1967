"""The lab measures what communication costs the machine that it stands on."""

import json

import pytest

pytest.importorskip("torch")

from paceline.cli import main

pytestmark = [
    pytest.mark.net,
    pytest.mark.needs("root", "namespaces", "iproute2"),
]


def test_a_byte_and_a_wait_for_a_turn_have_a_price(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "calibrate", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["workers"] == 2 * found["cores"]
    assert found["all_reduce_s"] > 0.9 * found["links_alone_s"]
    assert found["cpu_ns_per_byte"] > 0
    assert found["turn_ns"] > 0  # work on every core, as against none
