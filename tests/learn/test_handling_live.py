"""Messages carried between processes of this machine: what they take of a worker's processor."""

import pytest

from paceline.learn.handling import handling

SMALL, LARGE, MEASUREMENTS = 256, 262_144, 4


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_messages_take_some_of_a_processor_and_larger_ones_more() -> None:
    """How much, this machine's other work decides, too: it may hide what bytes take in one of a few
    measurements, and does not in all."""
    told = (handling(turns=8) for _ in range(MEASUREMENTS))
    found = next((one for one in told if one.carried_ns(LARGE) > one.carried_ns(SMALL)), None)
    assert found is not None, f"no byte took time in {MEASUREMENTS} measurements"
    assert found.told_ns(3) + 4 * found.carried_ns(SMALL) > 1e3
    assert found.summed_ns(4, 65_536) > 0
