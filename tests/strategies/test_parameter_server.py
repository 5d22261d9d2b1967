"""`parameter_server`: a push and a pull in place of each all-reduce."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from paceline.errors import GraphError
from paceline.graph import UNPRICED, Collective, Graph, OpKind, check
from paceline.replay import replay
from paceline.strategies import parse

if TYPE_CHECKING:
    from conftest import Drawn

Recording = Callable[..., Graph]


def test_each_bucket_is_pushed_and_then_pulled_before_the_thread_goes_on(
    recording: Recording, drawn: "Drawn"
) -> None:
    made = check(parse("parameter_server").transform(recording()))
    mine = (made.ops.rank == 0) & (made.ops.kind == OpKind.COLLECTIVE)
    assert made.ops.collective[mine].tolist() == [Collective.PUSH, Collective.PULL]
    assert (made.ops.dur_ns[mine] == UNPRICED).all()
    prices = np.where(made.ops.dur_ns == UNPRICED, 30, made.ops.dur_ns)
    assert replay(made, prices=prices).step_ns == drawn.work + 2 * 30


def test_nothing_is_pushed_where_it_is_not_known_what_reduces_gradients(
    recording: Recording,
) -> None:
    with pytest.raises(GraphError, match="cannot be sent to parameter servers"):
        parse("parameter_server").transform(recording(told=False))
