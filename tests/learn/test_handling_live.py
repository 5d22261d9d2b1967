"""Messages carried between processes of this machine: what they take of a worker's processor."""

import pytest

from paceline.learn.handling import handling


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_messages_take_some_of_a_processor_and_larger_ones_more() -> None:
    """How much, this machine's other work decides, too."""
    found = handling(turns=8)
    small, large = found.carried_ns(256), found.carried_ns(262_144)
    assert found.told_ns(3) + 4 * small > 1e3
    assert large > small
    assert found.summed_ns(4, 65_536) > 0
