"""The native engine equals the reference, to the nanosecond and with the same errors."""

from dataclasses import replace

import numpy as np
import pytest

from paceline.engine import native
from paceline.errors import ReplayError
from paceline.graph import Graph, check
from paceline.graph.cycles import lane_previous, lane_previous_reference
from paceline.graph.synthetic import jumble
from paceline.replay import Contention, Engine, Timeline, Transfers, replay
from paceline.replay.paths import critical_path_reference
from paceline.replay.slack import slack_reference

needs_native = pytest.mark.skipif(native() is None, reason="the native core is not built")


class SharedLink:
    """A pace for tests: all carried ops share one link evenly, in whole thousandths of a ns."""

    def __init__(self, dur_ns: np.ndarray) -> None:
        self.dur_ns, self.left, self.now = dur_ns.tolist(), {}, 0

    def begin(self, op: int, now_ns: int) -> None:
        self.settle(now_ns)
        self.left[op] = self.dur_ns[op] * 1000

    def settle(self, now_ns: int) -> None:
        for op in self.left:
            self.left[op] -= (now_ns - self.now) * (1000 // len(self.left))
        self.now = now_ns

    def next_end(self) -> int | None:
        if not self.left:
            return None
        return self.now - (-max(0, min(self.left.values())) // (1000 // len(self.left)))

    def take_ended(self, now_ns: int) -> list[int]:
        self.settle(now_ns)
        ended = sorted(op for op, left in self.left.items() if left <= 0)
        for op in ended:
            del self.left[op]
        return ended


def both(graph: Graph, **how: object) -> tuple[Timeline, Timeline] | None:
    """The timelines of both engines, or None where both are stuck with the same message."""
    found: list[Timeline | str] = []
    for engine in (Engine.NATIVE, Engine.REFERENCE):
        try:
            found.append(replay(graph, engine=engine, **how))
        except ReplayError as error:
            found.append(str(error))
    one, other = found
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return None
    return one, other


def assert_equal(one: Timeline, other: Timeline, what: object) -> None:
    for column in ("ready_ns", "start_ns", "end_ns", "previous"):
        assert np.array_equal(getattr(one, column), getattr(other, column)), (what, column)
    assert np.array_equal(one.columns.drained, other.columns.drained), what


@needs_native
def test_native_equals_reference_on_2000_random_graphs() -> None:
    equal = seed = 0
    while equal < 2000:
        graph = jumble(seed, longest=25, recorded=seed % 4 == 0)
        if timelines := both(graph):
            assert_equal(*timelines, seed)
            equal += 1
        seed += 1
    assert seed < 2800  # most random graphs can be replayed


@needs_native
def test_the_op_before_on_a_recorded_lane_is_that_of_the_reference() -> None:
    for seed in range(300):
        graph = jumble(seed, longest=25, recorded=seed % 2 == 0)
        assert np.array_equal(lane_previous(graph), lane_previous_reference(graph)), seed


@needs_native
def test_native_equals_reference_with_contention_and_shared_links() -> None:
    equal = 0
    for seed in range(400):
        graph, random = jumble(seed), np.random.default_rng(seed)
        graph = replace(graph, ops=replace(graph.ops, dur_ns=graph.ops.dur_ns % 2**33))
        how: dict[str, object] = {}
        if seed % 3:
            slow = 1 + random.random(2)
            how["contention"] = Contention.everywhere(graph, compute=slow[0], communication=slow[1])
        if seed % 3 != 1:
            carried = random.random(len(graph)) < 0.3
            dur_ns = graph.ops.dur_ns
            how["transfers"] = Transfers(carried, lambda dur_ns=dur_ns: SharedLink(dur_ns))
        if timelines := both(graph, **how):
            assert_equal(*timelines, seed)
            equal += 1
    assert equal > 250


@needs_native
def test_slack_and_critical_path_agree_between_engines() -> None:
    for seed in range(300):
        if timelines := both(jumble(seed)):
            native_one, reference = timelines
            assert np.array_equal(native_one.slack_ns, slack_reference(reference)), seed
            one, other = native_one.critical_path, critical_path_reference(reference)
            assert np.array_equal(one.ops, other.ops), seed
            assert np.array_equal(one.share_ns, other.share_ns), seed
            assert one.reasons == other.reasons


def test_every_random_graph_is_lawful() -> None:
    for seed in range(100):
        check(jumble(seed))


@needs_native
def test_native_is_refused_clearly_where_it_is_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.replay.engine.native", lambda: None)
    assert replay(jumble(4), engine=Engine.REFERENCE).step_ns > 0
    with pytest.raises(ReplayError, match="native core is not built"):
        replay(jumble(4), engine=Engine.NATIVE)
