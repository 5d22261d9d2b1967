"""The lab measures what communication costs the machine that it stands on."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from paceline.cli import main
from paceline.engine import native
from paceline.measure import load

pytestmark = [
    pytest.mark.net,
    pytest.mark.needs("root", "namespaces", "iproute2"),
]


@pytest.mark.slow
def test_a_byte_a_turn_and_a_message_have_a_price(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "here.json"
    arguments = ["--lab", "--workers", "1", "--repeats", "3", "--out", str(path)]
    assert main(["measure", *arguments, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)["shared_cores"]
    assert found["workers"] == 2 * found["cores"]
    assert found["all_reduce_s"] > 0.9 * found["links_alone_s"]
    assert found["cpu_ns_per_byte"]["value"] > 0
    assert found["turn_ns"]["value"] > 0  # work on every core, as against none
    kept = load(path).shared
    assert kept is not None
    assert kept.machine().cpu_ns_per_byte == pytest.approx(
        found["cpu_ns_per_byte"]["value"], abs=1e-3
    )
    assert kept.machine().gathered_block_ns > 0
    datagrams = kept.datagram_ns_per_byte
    assert (datagrams is None) == (native() is None)
    assert datagrams is None or datagrams.value > 0
    crowded = load(path).crowded_codecs
    assert [each.name for each in crowded] == [each.name for each in load(path).codecs]
    assert all(time > 0 for each in crowded for op in each.ops for time in op.times_ns)
