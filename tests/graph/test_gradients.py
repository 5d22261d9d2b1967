"""Which groups hold parts of the weights, by what their ranks gather."""

import pytest

from paceline.graph import Axis, Collective, Facts, GraphBuilder, OpKind, Parameter
from paceline.graph.gradients import among_shards


@pytest.mark.parametrize(("gathered", "holds_parts"), [(50, True), (49, False)])
def test_a_group_of_which_one_rank_is_known_holds_parts_where_that_one_gathers_half_the_bytes(
    gathered: int, holds_parts: bool
) -> None:
    b = GraphBuilder(facts=Facts(world_size=2, parameters=(Parameter("weight", 100),)))
    group = b.group("data", (0, 1), Axis.DATA)
    for step in range(3):
        b.op("gather", b.lane(0), 1, kind=OpKind.COLLECTIVE, collective=Collective.ALL_GATHER,
             size_bytes=gathered, group=group, step=step)  # fmt: skip
    assert among_shards(b.build()).tolist() == [holds_parts] * 3
