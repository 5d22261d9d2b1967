"""Incremental replay of graphs that need events, equal to a full replay after every edit."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import parse
from paceline.engine import native
from paceline.errors import PacelineError, ReplayError
from paceline.graph import NONE, DepKind, Discipline, Graph, GraphBuilder, OpKind, select
from paceline.graph.synthetic import Ring, jumble, ring
from paceline.replay import Contention, Live, NetworkModel, Transfers, flows, replay

needs_native = pytest.mark.skipif(native() is None, reason="the native core is not built")

COLUMNS = ("ready_ns", "start_ns", "end_ns", "previous")
SORTS = (
    "resize", "scale", "prioritise", "link", "unlink", "insert", "insert before", "remove", "undo",
)  # fmt: skip


@dataclass(frozen=True)
class Edit:
    """An edit of some sort about two ops and a number, each taken modulo what there is."""

    sort: str
    one: int
    other: int
    value: int

    def make(self, live: Live) -> None:
        alive = [op for op in range(len(live.dur_ns)) if live.alive(op)]
        one, other = alive[self.one % len(alive)], alive[self.other % len(alive)]
        lane, value = self.other % len(live.graph.lanes), self.value % 7
        edits = {
            "resize": lambda: live.resize(sorted({one, other}), value),
            "scale": lambda: live.scale([one], value / 3),
            "prioritise": lambda: live.prioritise([one], value - 3),
            "link": lambda: live.link(one, other, DepKind(self.value % len(DepKind))),
            "unlink": lambda: live.unlink(*self._known_link(live.graph)),
            "insert": lambda: live.insert("new", lane, value, after=[one], place_after=other),
            "insert before": lambda: live.insert("new", lane, value, before=[one]),
            "remove": lambda: live.remove({one, other} if len(alive) > 2 else []),
            "undo": live.undo,
        }
        edits[self.sort]()

    def _known_link(self, graph: Graph) -> tuple[int, int]:
        """A dependency of the first graph, which may be gone by now."""
        if not len(graph.deps):
            return 0, 0
        row = self.one % len(graph.deps)
        return int(graph.deps.src[row]), int(np.searchsorted(graph.deps.ptr, row, "right")) - 1


@dataclass(frozen=True)
class Conditions:
    """How a graph is replayed, whole or live."""

    contention: Contention | None = None
    transfers: Transfers | None = None

    def live(self, graph: Graph) -> Live:
        return Live(graph, contention=self.contention, transfers=self.transfers)

    def whole(self, live: Live, graph: Graph) -> Any:
        transfers, ids = self.transfers, live.ids()
        if transfers is not None:
            transfers = transfers.renumbered(np.where(ids < len(live.graph), ids, NONE))
        return replay(graph, contention=self.contention, transfers=transfers)


def assert_equal(live: Live, how: Conditions, what: object) -> None:
    full, followed = how.whole(live, live.freeze()), live.timeline()
    assert live.step_ns == full.step_ns, what
    for column in COLUMNS:
        assert np.array_equal(getattr(followed, column), getattr(full, column)), (column, what)
    assert np.array_equal(followed.columns.drained, full.columns.drained), what
    if full.columns.order is not None and followed.columns.order is not None:
        assert np.array_equal(followed.order, full.order), what


def follow(graph: Graph, edits: list[Edit], how: Conditions) -> int:
    """All edits, then all undone; equal to full replays throughout. How many ops were revisited."""
    live = how.live(graph)
    steps, revisited = [live.step_ns], 0
    for edit in edits:
        before = live.step_ns
        try:
            edit.make(live)
        except PacelineError:  # a cycle, stuck, a link that is not there: nothing happened
            assert live.step_ns == before
        else:
            revisited += live.revisited
            steps = steps[:-1] if edit.sort == "undo" else [*steps, live.step_ns]
        assert_equal(live, how, edits)
    while len(steps) > 1:
        steps.pop()
        assert live.undo() == steps[-1]
        assert_equal(live, how, edits)
    with pytest.raises(ReplayError, match="nothing to undo"):
        live.undo()
    return revisited


class OneByOne:
    """A pace for tests: carried ops follow each other, each for as long as it was given."""

    def __init__(self, dur_ns: np.ndarray) -> None:
        self.dur_ns, self.ends = dur_ns.tolist(), []

    def begin(self, op: int, now_ns: int) -> None:
        free = max([now_ns, *(end for end, _ in self.ends)])
        self.ends.append((free + self.dur_ns[op], op))

    def settle(self, now_ns: int) -> None:
        """Ends are known as soon as ops begin."""

    def next_end(self) -> int | None:
        return min(self.ends)[0] if self.ends else None

    def take_ended(self, now_ns: int) -> list[int]:
        ended = sorted(op for end, op in self.ends if end == now_ns)
        self.ends = [(end, op) for end, op in self.ends if end != now_ns]
        return ended


def some_job(seed: int, shared: str, longest: int = 40) -> tuple[Graph, Conditions]:
    """A random graph, and how it is to be replayed: with what sort of sharing."""
    graph, random = jumble(seed, longest=longest), np.random.default_rng(seed)
    if shared == "nothing":
        return graph, Conditions()
    unit = (1, 997)[seed % 2]  # beside messages of 512 ns and more, or as long as they are
    dur_ns, size_bytes = graph.ops.dur_ns % 2**33 * unit, graph.ops.size_bytes * 40
    graph = replace(graph, ops=replace(graph.ops, dur_ns=dur_ns, size_bytes=size_bytes))
    slow = 1 + random.random(2)
    contention = Contention.everywhere(graph, compute=slow[0], communication=slow[1])
    cluster = parse(f"{{hosts: 4, link: {{rate: {1 + seed % 9}Gbps}}}}")
    found = {
        "devices": lambda: Conditions(contention),
        "links": lambda: Conditions(None, flows(graph, cluster)),
        "both": lambda: Conditions(contention, flows(graph, cluster)),
        "a pace in Python": lambda: Conditions(
            contention,
            Transfers(random.random(len(graph)) < 0.3, lambda: OneByOne(graph.ops.dur_ns)),
        ),
    }
    return graph, found[shared]()


def followed(job: tuple[Graph, Conditions], edits: list[Edit]) -> int | None:
    """As `follow`; None where the graph itself cannot be replayed."""
    graph, how = job
    try:
        how.live(graph)
    except ReplayError:
        return None
    return follow(graph, edits, how)


some_edits = st.lists(
    st.builds(
        Edit,
        st.sampled_from(SORTS),
        st.integers(0, 99),
        st.integers(0, 99),
        st.integers(0, 41),
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 10**9), some_edits)
def test_edits_are_followed_through_priority_lanes_and_drains(seed: int, edits: list[Edit]) -> None:
    followed(some_job(seed, "nothing"), edits)


@settings(deadline=None, max_examples=60)
@pytest.mark.parametrize("shared", ["devices", "links", "both", "a pace in Python"])
@given(seed=st.integers(0, 10**9), edits=some_edits)
def test_edits_are_followed_where_ops_share(shared: str, seed: int, edits: list[Edit]) -> None:
    followed(some_job(seed, shared), edits)


def meetings(seed: int) -> Graph:
    """Ranks that meet on lanes by priority: who waits for whom depends on what came before."""
    random, b = np.random.default_rng(seed), GraphBuilder()
    ranks = range(2 + int(random.integers(2)))
    lanes = [
        [b.lane(rank=rank, name=name, discipline=Discipline.PRIORITY) for name in ("work", "talk")]
        for rank in ranks
    ]
    last: list[list[int]] = [[] for _ in ranks]
    for turn in range(random.integers(3, 10)):
        joined, first = b.instance(), turn + int(random.integers(2))
        for rank, (work, talk) in enumerate(lanes):
            short = random.integers(6, size=3).tolist()
            made = b.op("make", work, short[0], after=last[rank], priority=short[1] % 3)
            if random.random() < 0.4:
                b.op("note", talk, short[2], after=[made], priority=short[1] % 3)
            met = b.op("meet", talk, 1 + short[1], after=[made], kind=OpKind.SEND,
                       instance=joined, priority=first)  # fmt: skip
            last[rank] = [met if random.random() < 0.75 else made]
    return b.build()


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 10**9), some_edits)
def test_edits_are_followed_where_members_meet_on_priority_lanes(
    seed: int, edits: list[Edit]
) -> None:
    followed((meetings(seed), Conditions()), edits)


@needs_native
def test_2000_random_graphs_are_followed_exactly() -> None:
    equal = seed = revisited = edited = 0
    while equal < 2000:
        random = np.random.default_rng(seed)
        sorts = [s for s in SORTS if s != "undo"]
        edits = [
            Edit(sorts[random.integers(len(sorts))], *random.integers(0, 99, 3).tolist())
            for _ in range(2)
        ]
        job = some_job(seed, ("nothing", "nothing", "devices")[seed % 3], longest=16)
        if (count := followed(job, edits)) is not None:
            revisited, edited, equal = revisited + count, edited + 2 * len(job[0]), equal + 1
        seed += 1
    assert seed < 2600  # most random graphs can be replayed
    assert revisited < 0.7 * edited


def test_an_op_put_first_goes_first() -> None:
    """a (10), b (20) and c (30) are ready at 0 on one lane, d (40) waits for c on another: a, b, c
    one after the other until 60, then d until 100. With c first: c until 30, d until 70."""
    b = GraphBuilder()
    lane, other = b.lane(discipline=Discipline.PRIORITY), b.lane()
    ops = [b.op(name, lane, dur) for name, dur in (("a", 10), ("b", 20), ("c", 30))]
    b.op("d", other, 40, after=[ops[2]])
    live = Live(b.build())
    assert live.step_ns == 100
    assert live.prioritise([2], -1) == 70
    assert live.timeline().start_ns.tolist() == [30, 40, 0, 30]
    assert live.undo() == 100


def steps_with_barriers(count: int) -> Graph:
    """In each step a and b (10 and 20 ns) on one lane and c (15 ns) beside them, then a barrier.
    A step takes 30 ns."""
    b = GraphBuilder()
    lane, beside = (b.lane(name=name, discipline=Discipline.PRIORITY) for name in ("one", "two"))
    barrier: list[int] = []
    for _ in range(count):
        ops = [b.op("a", lane, 10, after=barrier), b.op("b", lane, 20, after=barrier)]
        ops.append(b.op("c", beside, 15, after=barrier))
        barrier = [b.op("barrier", beside, 0, after=ops, kind=OpKind.MARKER)]
    return b.build()


@needs_native
def test_what_only_comes_later_is_not_revisited() -> None:
    live = Live(steps_with_barriers(100))  # a is op 0 of 4 in each step, c is op 2
    assert live.step_ns == 3000
    assert live.resize([200], 13) == 3003
    assert live.revisited <= 12
    assert live.timeline().end_ns[[199, 200, 396]].tolist() == [1500, 1513, 2983]
    assert_equal(live, Conditions(), "shifted")
    for step in range(48, 56):  # on the shifted timeline, whose waiting ops must be there
        live.prioritise([4 * step + 1], -1)  # b before a
        assert_equal(live, Conditions(), step)
    assert [live.undo() for _ in range(9)] == [3003] * 8 + [3000]
    assert live.revisited <= 12


@needs_native
def test_what_comes_or_goes_is_made_up_for_at_the_next_barrier() -> None:
    live = Live(steps_with_barriers(100))
    assert live.remove([201]) == 2985  # without b its step takes the 15 ns of c
    assert live.revisited <= 12
    assert_equal(live, Conditions(), "removed")
    assert live.insert("new", 0, 7, after=[199], before=[203]) == 2987  # a, new: 17 ns
    assert live.revisited <= 12
    assert_equal(live, Conditions(), "inserted")
    assert [live.undo(), live.undo()] == [2985, 3000]
    assert live.revisited <= 12
    assert_equal(live, Conditions(), "undone")


@needs_native
def test_what_is_absorbed_is_not_passed_on() -> None:
    live = Live(steps_with_barriers(100))
    assert live.resize([202], 25) == 3000  # c has 15 ns to spare
    assert live.revisited <= 12
    assert_equal(live, Conditions(), "absorbed")
    assert live.resize([202], 35) == 3005


@needs_native
def test_edits_late_in_a_step_go_back_only_to_where_they_are() -> None:
    graph = ring(Ring(ranks=4, jitter=0.1, discipline=Discipline.PRIORITY))
    live, random = Live(graph), np.random.default_rng(5)
    for tensor in random.integers(50, size=10):
        live.scale(select(graph, f"tensor=tensor {tensor},kind=transfer"), random.uniform(0.3, 3))
        assert_equal(live, Conditions(), tensor)
    last = int(live.timeline().order[-1])
    live.scale([last], 2)
    assert live.revisited <= len(graph) // 500
    assert_equal(live, Conditions(), "last")


def crossing() -> Graph:
    """Two ranks meet twice; each lane takes what was ready first, or is told otherwise."""
    b = GraphBuilder()
    lanes = [b.lane(rank=rank, discipline=Discipline.PRIORITY) for rank in range(2)]
    for _ in range(2):
        joined = b.instance()
        for lane in lanes:
            b.op("meet", lane, 10, kind=OpKind.SEND, instance=joined)
    return b.build()


def test_an_edit_after_which_ops_wait_for_ever_is_taken_back() -> None:
    live = Live(crossing())
    with pytest.raises(ReplayError, match="replay is stuck"):
        live.prioritise([2], -1)  # rank 0 goes to the second meeting first
    assert live.step_ns == 20
    assert live.prioritise([2, 3], -1) == 20
    assert live.timeline().start_ns.tolist() == [10, 10, 0, 0]
    assert live.undo() == 20


def test_a_launch_changed_where_lanes_drain_is_replayed_whole_and_exactly() -> None:
    b = GraphBuilder()
    host, stream = b.lane(), b.lane(discipline=Discipline.PRIORITY)
    call = b.op("call", host, 5)
    kernel = b.op("kernel", stream, 50)
    b.link(call, kernel, DepKind.LAUNCH)
    wait = b.op("wait", host, 1)
    b.drain(wait, stream)
    live = Live(b.build())
    assert live.step_ns == 56  # the kernel from 5 to 55, then the wait
    assert live.unlink(call, kernel) == 51  # from 0 to 50
    assert live.revisited == 3
    assert live.resize([kernel], 70) == 71
    assert [live.undo(), live.undo()] == [51, 56]
    assert live.resize([kernel], 70) == 76


def test_flows_of_a_cluster_are_followed() -> None:
    graph = ring(Ring(ranks=4, layers=6, tensors=4))
    cluster = parse("{hosts: 4, link: {rate: 8Gbps}}")
    live = Live(graph, cluster, network=NetworkModel.FLOWS)
    assert live.step_ns == replay(graph, cluster, network=NetworkModel.FLOWS).step_ns
    first = int(select(graph, "phase=forward")[0])
    before = live.step_ns
    assert live.resize([first], 10**9) > before
    full = replay(live.freeze(), transfers=flows(graph, cluster))
    assert np.array_equal(full.end_ns, live.timeline().end_ns)
    assert live.undo() == before
    carried = int(select(graph, "kind=transfer")[0])
    with pytest.raises(ReplayError, match="is carried by transfers"):
        live.resize([carried], 5)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**9), st.sampled_from(["nothing", "devices", "links"]), some_edits)
def test_without_the_native_core_edits_are_replayed_whole_and_agree(
    without_core: Callable[[], AbstractContextManager[None]],
    seed: int,
    shared: str,
    edits: list[Edit],
) -> None:
    with without_core():
        followed(some_job(seed, shared, longest=20), edits)
