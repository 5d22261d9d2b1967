"""What an imagined run keeps of its device is enough to find it again."""

from dataclasses import replace

import pytest

from paceline.cluster.files import device
from paceline.cluster.recognised import kept, recognised


@pytest.mark.parametrize("name", ["h100", "mi300x", "a100-80", "epyc-2c"])
def test_a_preset_that_a_run_was_imagined_for_is_found_again(name: str) -> None:
    assert recognised(kept(device(name))) == device(name)


def test_a_device_with_figures_of_its_own_is_not_taken_for_the_preset_of_its_name() -> None:
    slower = replace(device("h100"), memory_bytes_per_s=2.4e12)
    found = kept(slower)
    assert recognised(found) is None
    assert "h100" in found.name
    assert found.units == 132
