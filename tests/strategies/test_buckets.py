"""`buckets`: when each is handed over, waited for and copied back."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import GraphError
from paceline.graph import UNPRICED, Graph, OpKind, check
from paceline.replay import replay
from paceline.runtime.exchange import ExchangeError
from paceline.strategies import StrategyError, parse
from paceline.strategies.buckets import Buckets, buckets_of

if TYPE_CHECKING:
    from conftest import Drawn

Recording = Callable[..., Graph]
SMALL = "buckets(size_bytes=1)"


def test_smaller_buckets_are_handed_over_as_soon_as_their_gradient_is_ready(
    recording: Recording, drawn: "Drawn"
) -> None:
    made = check(parse(SMALL).transform(recording()))
    talks = np.flatnonzero((made.ops.kind == OpKind.COLLECTIVE) & (made.ops.rank == 0))
    assert made.ops.size_bytes[talks].tolist() == [drawn.first_bytes, drawn.second_bytes]
    assert (made.ops.dur_ns[talks] == UNPRICED).all()
    line = replay(made, prices=np.where(made.ops.dur_ns == UNPRICED, 30, made.ops.dur_ns))
    first = drawn.forward + drawn.backward
    assert line.start_ns[talks].tolist() == [first, first + drawn.backward]
    # The first bucket travels behind the backward pass of the second gradient, and is copied back
    # while the second travels: only the second is waited for.
    second = drawn.copy * drawn.second_bytes // 1000
    assert line.step_ns == drawn.work - drawn.copy + 30 + second


def test_copying_back_is_shared_out_among_buckets_by_their_bytes(
    recording: Recording, drawn: "Drawn"
) -> None:
    made = parse(SMALL).transform(recording())
    waits = np.flatnonzero((made.ops.kind == OpKind.WAIT) & (made.ops.rank == 0))
    shares = [drawn.copy * size // 1000 for size in (drawn.first_bytes, drawn.second_bytes)]
    assert made.ops.dur_ns[waits + 1].tolist() == shares


def test_copying_back_before_the_first_wait_that_shows_is_shared_out_too(
    recording: Recording, drawn: "Drawn"
) -> None:
    made = check(parse("buckets(size_bytes=1000)").transform(recording(unseen=70)))
    wait, copy, update = [op for op in made if op.rank == 0][-3:]
    assert (wait.kind, copy.dur_ns, update.name) == (OpKind.WAIT, drawn.copy + 70, "sgd")


def test_the_recorded_buckets_asked_for_again_change_nothing_but_what_a_cluster_prices(
    recording: Recording, drawn: "Drawn"
) -> None:
    made = parse("buckets(size_bytes=1000)").transform(recording())
    prices = np.where(made.ops.dur_ns == UNPRICED, drawn.talk, made.ops.dur_ns)
    assert replay(made, prices=prices).step_ns == replay(recording()).step_ns
    assert len(made) == len(recording())


def test_a_call_that_hands_over_a_bucket_takes_its_time_for_each_new_one(
    recording: Recording,
) -> None:
    graph = recording()
    asking = graph.ops.kind == OpKind.HOST
    dur = np.where(asking, 7, graph.ops.dur_ns)
    made = parse(SMALL).transform(replace(graph, ops=replace(graph.ops, dur_ns=dur)))
    asked = made.ops.kind == OpKind.HOST
    assert made.ops.dur_ns[asked].tolist() == [7] * 4


@settings(deadline=None, max_examples=50)
@given(sizes=st.lists(st.integers(1, 100), min_size=1, max_size=20), limit=st.integers(1, 300))
def test_buckets_hold_every_gradient_once_and_close_when_they_reach_the_limit(
    sizes: list[int], limit: int
) -> None:
    order = list(reversed(range(len(sizes))))
    buckets = buckets_of(order, sizes, Buckets(limit))
    assert [p for bucket in buckets for p in bucket] == order
    for bucket in buckets[:-1]:
        assert sum(sizes[p] for p in bucket) >= limit
        assert sum(sizes[p] for p in bucket[:-1]) < limit


def test_ddps_default_first_bucket_is_smaller() -> None:
    asked = Buckets(20, first_size_bytes=5)
    assert buckets_of([3, 2, 1, 0], [10, 10, 10, 10], asked) == ((3,), (2, 1), (0,))


def test_buckets_cannot_change_where_nothing_tells_them(recording: Recording) -> None:
    with pytest.raises(GraphError, match="does not say which collectives reduce gradients"):
        parse(SMALL).transform(recording(told=False))


def test_buckets_cannot_change_where_a_gradient_is_not_told(recording: Recording) -> None:
    graph = recording()
    more = (*graph.facts.parameters, replace(graph.facts.parameters[0], name="w3"))
    with pytest.raises(GraphError, match="does not say when each gradient is ready"):
        parse(SMALL).transform(replace(graph, facts=replace(graph.facts, parameters=more)))


@pytest.mark.parametrize("text", ["buckets(size_bytes=0)", "buckets(size_bytes=-5)"])
def test_buckets_of_nothing_are_refused(text: str) -> None:
    with pytest.raises(StrategyError, match="give more than 0"):
        parse(text)


def test_an_order_that_leaves_a_parameter_out_is_refused(recording: Recording) -> None:
    with pytest.raises(ExchangeError, match=r"name every parameter once.*; w1 is missing"):
        parse("buckets(size_bytes=9, order='w2')").transform(recording())
    with pytest.raises(ExchangeError, match="a name stands there twice"):
        parse("buckets(size_bytes=9, order='w2 w1 w2')").transform(recording())


def test_a_bucket_that_is_ready_early_waits_for_those_before_it(recording: Recording) -> None:
    made = check(parse("buckets(size_bytes=1, order='w1 w2')").transform(recording()))
    talks = np.flatnonzero((made.ops.kind == OpKind.COLLECTIVE) & (made.ops.rank == 0))
    line = replay(made, prices=np.where(made.ops.dur_ns == UNPRICED, 30, made.ops.dur_ns))
    assert made.ops.size_bytes[talks].tolist() == [600, 400]
    assert line.ready_ns[talks[0]] == line.end_ns[made.ops.tensor != -1].max()
