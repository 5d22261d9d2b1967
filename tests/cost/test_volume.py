"""How much of a payload each member sends."""

import pytest

from paceline.cost.collectives.volume import sent_share
from paceline.graph import Collective


@pytest.mark.parametrize(
    ("collective", "share"),
    [
        (Collective.ALL_REDUCE, 1.5),
        (Collective.REDUCE_SCATTER, 0.75),
        (Collective.ALL_GATHER, 0.75),
        (Collective.PUSH, 0.75),
        (Collective.POINT_TO_POINT, 1.0),
        (Collective.BARRIER, 0.0),
    ],
)
def test_a_mean_member_of_four_sends_its_share_of_the_payload(
    collective: Collective, share: float
) -> None:
    assert sent_share(collective, 4) == share
