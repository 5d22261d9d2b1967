"""Of several recorded steps, the one that stands for all."""

from dataclasses import replace

import numpy as np

from paceline.graph import DepKind, Graph, GraphBuilder, OpKind, Spread, check
from paceline.replay import one_step, replay, replay_many

LENGTHS = (50, 70, 90, 80)


def recording() -> Graph:
    """Steps in which the main thread runs, wakes a helper, and waits for it: 10 + the helper's
    time. The helper begins to wait for step k + 1 in step k, as real threads do."""
    b = GraphBuilder()
    main, helper = b.lane(name="main"), b.lane(name="helper")
    waits = b.op("idle", helper, kind=OpKind.WAIT, step=0)
    for step, length in enumerate(LENGTHS):
        b.op("step", main, kind=OpKind.MARKER, step=step)
        forward = b.op("forward", main, 10, step=step)
        b.link(forward, waits, DepKind.AUTOGRAD)
        backward = b.op("backward", helper, length - 10, step=step)
        b.op("wait", main, kind=OpKind.WAIT, after=[backward], step=step)
        waits = b.op("idle", helper, kind=OpKind.WAIT, step=step)
    return with_backward_samples(check(b.build()))


def with_backward_samples(graph: Graph) -> Graph:
    counts = [len(LENGTHS) if op.name == "backward" else 0 for op in graph]
    samples = np.array([length - 10 for length in LENGTHS] * len(LENGTHS), np.int64)
    return replace(graph, spread=Spread(np.cumsum([0, *counts]), samples))


def test_the_step_of_median_length_stands_for_all() -> None:
    whole = recording()
    one = check(one_step(whole))
    assert replay(whole).step_ns == sum(LENGTHS)
    assert replay(one).step_ns == 80  # of 70, 90 and 80: the first step is never taken
    assert set(one.ops.step.tolist()) == {3}
    assert one.meta["one_step"] == 3


def test_a_thread_that_began_to_wait_a_step_earlier_still_waits_for_this_steps_work() -> None:
    one = one_step(recording())
    (backward,) = [op for op in one if op.name == "backward"]
    assert [one[src].name for src in backward.deps] == ["forward"]
    assert replay(one).start_ns[backward.id] == 10


def test_samples_come_along_so_that_draws_are_of_one_step() -> None:
    drawn = replay_many(one_step(recording()), 400, seed=1)
    assert set(drawn.steps_ns.tolist()) == set(LENGTHS)


def test_a_graph_of_one_step_stands_for_itself() -> None:
    one = one_step(recording())
    assert one_step(one) is one
