"""Shared cores and shaped links on random graphs: engines agree, and so do edits and draws."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.conditions import MESSAGES, Conditions
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.engine import native
from paceline.errors import ReplayError
from paceline.graph import Graph, OpKind, Spread
from paceline.graph.synthetic import Ring, folded_ring
from paceline.replay import (
    Engine,
    Live,
    SharedHosts,
    Timeline,
    Transfers,
    replay,
    replay_many,
)

needs_native = pytest.mark.skipif(native() is None, reason="the native core is not built")


def by(engine: Engine, on: Conditions, *, reference: bool) -> Timeline | str:
    """The timeline, or why there is none."""
    graph = on.graph()
    transfers = on.transfers(graph, reference=reference)
    try:
        return replay(graph, hosts=on.machines(graph), transfers=transfers, engine=engine)
    except ReplayError as error:
        return str(error)


def assert_equal(one: Timeline | str, other: Timeline | str) -> None:
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return
    for column in ("ready_ns", "start_ns", "end_ns", "previous"):
        assert getattr(one, column).tolist() == getattr(other, column).tolist(), column


conditions = st.builds(Conditions, st.integers(0, 2**32), st.booleans(), st.booleans())


@needs_native
@settings(deadline=None, max_examples=400)
@given(conditions)
def test_native_equals_reference_on_shared_cores_and_shaped_links(on: Conditions) -> None:
    exact = by(Engine.REFERENCE, on, reference=True)
    assert_equal(by(Engine.NATIVE, on, reference=False), exact)


@needs_native
@settings(deadline=None, max_examples=100)
@given(st.builds(Conditions, st.integers(0, 2**32), st.just(False), st.just(True), st.just(False)))
def test_native_equals_reference_on_shaped_links_alone(on: Conditions) -> None:
    exact = by(Engine.REFERENCE, on, reference=True)
    assert_equal(by(Engine.NATIVE, on, reference=False), exact)


@needs_native
@settings(deadline=None, max_examples=100)
@given(conditions)
def test_either_engine_takes_the_other_ones_links(on: Conditions) -> None:
    exact = by(Engine.REFERENCE, on, reference=True)
    assert_equal(by(Engine.NATIVE, on, reference=True), exact)
    assert_equal(by(Engine.REFERENCE, on, reference=False), exact)


def first_that_runs(*, shaped: bool) -> tuple[Graph, SharedHosts, Transfers | None]:
    """A graph of many ops that is not stuck, and what it runs on."""
    for seed in range(1000):
        on = Conditions(seed, turns=True, shaped=shaped)
        graph = on.graph()
        hosts, transfers = on.machines(graph), on.transfers(graph, reference=False)
        stuck = isinstance(by(Engine.REFERENCE, on, reference=True), str)
        messages = bool(np.isin(graph.ops.kind, MESSAGES).any())
        if hosts is not None and len(graph) > 30 and messages >= shaped and not stuck:
            return graph, hosts, transfers
    raise AssertionError("no such graph among the first thousand")


@pytest.mark.parametrize("shaped", [False, True])
def test_edits_and_undo_are_replayed_on_the_same_hosts(shaped: bool) -> None:
    graph, hosts, transfers = first_that_runs(shaped=shaped)
    live = Live(graph, transfers=transfers, hosts=hosts)
    before = live.step_ns
    works = np.flatnonzero((graph.ops.kind == OpKind.COMPUTE) & (graph.ops.dur_ns > 0))
    live.scale(works, 3.0)
    assert live.step_ns == replay(live.freeze(), transfers=transfers, hosts=hosts).step_ns > before
    live.remove([int(works[0])])
    ids = live.ids()
    assert len(ids) == len(graph) - 1
    left = replay(
        live.freeze(),
        transfers=transfers and transfers.renumbered(ids),
        hosts=hosts.renumbered(ids),
    )
    assert live.timeline().end_ns.tolist() == left.end_ns.tolist()
    live.undo()
    live.undo()
    assert live.step_ns == before


@needs_native
def test_draws_on_shared_hosts_agree_between_engines_and_threads() -> None:
    graph, hosts, _ = first_that_runs(shaped=False)
    drawn = [
        replay_many(graph, 12, seed=5, hosts=hosts, engine=engine, threads=threads)
        for engine, threads in ((Engine.REFERENCE, 1), (Engine.NATIVE, 1), (Engine.NATIVE, 3))
    ]
    for one in drawn[1:]:
        assert one.steps_ns.tolist() == drawn[0].steps_ns.tolist()
        assert one.critical_probability.tolist() == drawn[0].critical_probability.tolist()
    unshared = replay_many(graph, 12, seed=5)
    assert (drawn[0].steps_ns >= unshared.steps_ns).all()


@pytest.mark.parametrize(
    "engine", [Engine.REFERENCE, pytest.param(Engine.NATIVE, marks=needs_native)]
)
def test_draws_of_one_sample_each_are_the_replay_itself(engine: Engine) -> None:
    graph, hosts, _ = first_that_runs(shaped=False)
    count = len(graph)
    spread = Spread(np.arange(count + 1, dtype=np.int64), graph.ops.dur_ns)
    drawn = replay_many(replace(graph, spread=spread), 2, hosts=hosts, engine=engine)
    assert drawn.steps_ns.tolist() == [replay(graph, hosts=hosts).step_ns] * 2


@pytest.mark.parametrize(
    "given", [("cpu_ns",), ("turn_ns",), ("beside_ns",), ("cpu_ns", "turn_ns")]
)
def test_time_that_a_carried_op_takes_of_its_host_is_refused(given: tuple[str, ...]) -> None:
    graph, hosts, transfers = first_that_runs(shaped=True)
    takes = dict.fromkeys(given, np.isin(graph.ops.kind, MESSAGES).astype(np.int64))
    with pytest.raises(ReplayError, match="carried by transfers"):
        replay(
            graph,
            transfers=transfers,
            hosts=replace(hosts, **{"cpu_ns": None, "turn_ns": None, "beside_ns": None, **takes}),
        )


def test_a_folded_graph_does_not_share_cores_with_ranks_that_are_not_there() -> None:
    with pytest.raises(ReplayError, match="neither links nor cores"):
        replay(folded_ring(Ring(ranks=8)), hosts=SharedHosts.one_machine(8, 4))
