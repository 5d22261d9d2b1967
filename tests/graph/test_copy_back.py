"""Which thread copies reduced gradients back, and where that begins."""

import numpy as np
import pytest

from paceline.graph import Collective, DepKind, GraphBuilder, LaneKind, OpKind, Phase
from paceline.graph.copy_back import copy_back
from paceline.graph.links import Links


@pytest.mark.parametrize(
    ("waits", "on"), [((2, 1), "first"), ((1, 2), "second"), ((1, 1), "first")]
)
def test_the_thread_that_waits_most_copies_back_and_the_first_of_equals(
    waits: tuple[int, int], on: str
) -> None:
    b = GraphBuilder()
    threads, gloo = (
        [b.lane(0, name) for name in ("first", "second")],
        b.lane(0, "gloo", kind=LaneKind.COMM_THREAD),
    )
    sent = [
        b.op("all_reduce", gloo, 9, kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE)
        for _ in range(2)
    ]
    for thread, times in zip(threads, waits):
        for call in sent[:times]:
            b.op("wait", thread, after=[call], dep=DepKind.WAIT, kind=OpKind.WAIT)
            b.op("copy", thread, 4, phase=Phase.BACKWARD)
    graph = b.build()
    found = copy_back(graph, Links.of(graph), np.array(sent))
    assert {graph.lanes.name[graph.ops.lane[op]] for op in found.work} == {on}
