"""One typical step stands for the recorded ones."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from paceline.errors import GraphError
from paceline.graph import Collective, DepKind, Graph, GraphBuilder, LaneKind, OpKind, check, select
from paceline.graph.condense import Grain, coarser, condense
from paceline.graph.links import Links
from paceline.replay import replay


def job(
    works_ns: Sequence[Sequence[int]],
    sizes: Sequence[int] = (),
    waits: Sequence[int] = (),
    kind: Collective = Collective.ALL_REDUCE,
) -> Graph:
    """A thread whose steps are stretches of small ops, one collective, and a last op; `sizes` and
    `waits` say by step what is sent and whether the wait for it was seen (1) or not (0)."""
    b = GraphBuilder()
    thread, link = b.lane(), b.lane(name="gloo", kind=LaneKind.COMM_THREAD)
    group = b.group("all", (0,))
    last = None
    for step, works in enumerate(works_ns):
        ops = [b.op(f"work {i}", thread, took, step=step) for i, took in enumerate(works)]
        ready = b.op("ready", thread, 10, tensor="w", step=step)
        call = b.op("all-reduce", link, 50, kind=OpKind.COLLECTIVE, instance=b.instance(),
                    collective=kind, group=group, step=step,
                    size_bytes=sizes[step] if sizes else 8, after=[ready],
                    dep=DepKind.GRADIENT)  # fmt: skip
        if last is not None:
            b.link(last, ops[0], DepKind.DATA)
        b.op("idle", thread, 5, step=step)
        last = b.op("update", thread, 10, step=step)
        if not waits or waits[step]:
            b.link(call, last, DepKind.WAIT)
    return b.build()


def steps_ns(graph: Graph) -> list[int]:
    ends = replay(graph).end_ns
    return [int(ends[graph.ops.step == step].max()) for step in np.unique(graph.ops.step)]


def test_work_takes_its_median_over_the_steps() -> None:
    found = condense(job([(10, 20), (40, 50), (20, 20)]), Grain.OP, 1)
    assert int(found.ops.dur_ns[select(found, "name~work")].sum()) == 40


def test_ops_of_a_stretch_share_its_median_as_in_the_step_of_median_work() -> None:
    found = condense(job([(10, 20), (30, 90), (10, 30)]), Grain.OP, 1)
    assert found.ops.dur_ns[select(found, "name~work")].tolist() == [10, 30]


def test_samples_are_what_the_steps_took() -> None:
    found = condense(job([(10,), (40,), (20,)]), Grain.OP, 1)
    assert found.spread is not None
    shares = found.spread.samples_ns.reshape(2, 3)  # of the work, and of the op that ends it
    assert shares.tolist() == [[13, 33, 20], [7, 17, 10]]


def test_each_step_follows_the_one_before_as_recorded() -> None:
    found = condense(job([(10,), (10,), (10,)]), Grain.OP, 5)
    ends = steps_ns(found)
    assert len(ends) == 5
    assert set(np.diff(ends)) == {ends[0]}
    links = Links.of(found)
    assert (found.ops.step[links.op] - found.ops.step[links.src] == 1).sum() == 4


def test_collectives_of_different_copies_do_not_meet() -> None:
    found = condense(job([(10,), (10,), (10,)]), Grain.OP, 4)
    talks = found.ops.kind == OpKind.COLLECTIVE
    assert sorted(found.ops.instance[talks].tolist()) == [0, 1, 2, 3]


def test_a_coarser_step_has_fewer_ops_and_takes_as_long() -> None:
    graph = job([(10, 20, 5), (12, 22, 5), (11, 21, 5)])
    fine, coarse = condense(graph, Grain.OP), condense(graph, Grain.EVENT)
    assert len(coarse) < len(fine)
    assert steps_ns(coarse) == steps_ns(fine)
    assert check(coarse) is coarse


def test_a_step_that_communicated_otherwise_does_not_count() -> None:
    works = [(10,), (900,), (20,), (30,)]
    found = condense(job(works, sizes=(8, 16, 8, 8)), Grain.OP, 1)
    assert found.ops.dur_ns[select(found, "name~work")].tolist() == [20]
    assert found.ops.size_bytes[select(found, "kind=collective")].tolist() == [8]


def test_steps_that_differ_too_much_are_refused() -> None:
    with pytest.raises(GraphError, match="only 2 of 4"):
        condense(job([(10,)] * 4, sizes=(8, 16, 8, 16)))


def test_all_to_alls_that_route_other_rows_in_each_step_are_alike() -> None:
    graph = job([(10,), (30,), (20,)], sizes=(8, 16, 12), kind=Collective.ALL_TO_ALL)
    found = condense(graph, Grain.OP, 1)
    assert found.ops.dur_ns[select(found, "name~work")].tolist() == [20]
    sent = found.ops.size_bytes[select(found, "kind=collective")].tolist()
    assert sent == [12], "as in the step of median work"


def test_all_to_alls_of_the_same_size_in_most_steps_leave_out_the_others() -> None:
    works = [(10,), (900,), (20,), (30,)]
    graph = job(works, sizes=(8, 16, 8, 8), kind=Collective.ALL_TO_ALL)
    found = condense(graph, Grain.OP, 1)
    assert found.ops.dur_ns[select(found, "name~work")].tolist() == [20]


def test_a_wait_that_most_steps_show_is_in_the_typical_step() -> None:
    graph = job([(10,), (20,), (30,)], waits=(1, 0, 1))  # the step of median work shows none
    found = condense(graph, Grain.OP, 1)
    links = Links.of(found)
    call = int(select(found, "kind=collective")[0])
    waiter = int(links.op[(links.src == call) & (links.kind == DepKind.WAIT)][0])
    assert found.names[found.ops.name[waiter]] == "idle"  # the first behind the cut


def test_a_gradients_collective_that_no_step_waits_for_is_waited_for_at_the_end() -> None:
    found = condense(job([(10,), (10,), (10,)], waits=(0, 0, 0)), Grain.OP, 1)
    links = Links.of(found)
    waiters = links.op[links.kind == DepKind.WAIT]
    assert [found.names[found.ops.name[op]] for op in waiters] == ["idle"]
    assert steps_ns(found) == [10 + 10 + 50 + 5 + 10]


def test_a_single_step_keeps_its_lengths() -> None:
    graph = job([(10, 20)])
    assert steps_ns(condense(graph, Grain.OP, 1)) == steps_ns(graph)


def test_memory_of_the_typical_step_is_allocated_in_each_copy() -> None:
    b = GraphBuilder()
    lane = b.lane()
    for step, took in enumerate((10, 20, 30)):
        op = b.op("mm", lane, took, step=step)
        b.allocate(op, 100 * (step + 1))
    found = condense(b.build(), Grain.OP, 2)
    assert found.memory.op.tolist() == [0, 1]
    assert found.memory.delta_bytes.tolist() == [200, 200]  # as in the step of median work


def test_work_that_another_lane_waits_for_is_not_merged_with_what_follows() -> None:
    b = GraphBuilder()
    one, other = b.lane(), b.lane(name="other")
    first = b.op("first", one, 10)
    b.op("second", one, 30)
    b.op("waits", other, 5, after=[first])
    found, place = coarser(b.build(), Grain.EVENT)
    assert place.tolist() == [0, 1, 2]
    assert replay(found).end_ns.tolist() == [10, 40, 15]


def test_the_step_that_stands_for_all_follows_one_that_was_recorded_too() -> None:
    graph = job([(10,)] * 6)
    apart = np.array([3, 9, 11, 17, 20, 21], np.int32)  # step 21 alone follows its neighbour
    number = apart[graph.ops.step]
    links = Links.of(graph)
    near = number[links.op] - number[links.src] <= 1
    parted = replace(
        graph,
        ops=replace(graph.ops, step=number),
        deps=links.where(near).columns(len(graph)),
    )
    found = condense(parted, Grain.OP, 3)
    links = Links.of(found)
    assert (found.ops.step[links.op] - found.ops.step[links.src] == 1).sum() == 2
