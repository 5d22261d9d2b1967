"""Plans from a profile: what is chosen, and what stands beside it."""

from dataclasses import replace

import pytest

from paceline.serve import Fingerprint, InstanceShare, Point, ServeError, ServingProfile, Topology
from paceline.serve.following import Move, dealt_anew, followed
from paceline.serve.plan import best_plan, even_parts, plain_choices, priced
from paceline.serve.profile import sizes
from paceline.serve.tried import Tried

CORES = Topology((0, 1, 2, 3), physical=4, nodes=1)


def profile(by_threads: dict[int, float], stretch: float = 1.0, batch: int = 8) -> ServingProfile:
    """An instance takes so much a sample by its threads; neighbours stretch it."""
    points = [
        Point(t, b, ns * b * (stretch if crowded else 1), ns * b, ns * b, 3, crowded)
        for t, ns in by_threads.items()
        for b in sizes(batch)
        for crowded in (False, True)
        if not crowded or t < max(by_threads)
    ]
    return ServingProfile(
        Fingerprint("m", "t", "c"), max(by_threads), batch, tuple(points), "today"
    )


def test_instances_that_scale_badly_become_many_with_few_threads() -> None:
    plan = best_plan(profile({1: 10.0, 2: 8.0, 4: 7.0}), 4, 8)
    assert plan.shares == (InstanceShare(1, 2),) * 4
    assert plan.latency_ns == 20.0


def test_neighbours_that_slow_each_other_are_counted() -> None:
    """Four instances of one thread take 2 x 10 each; stretched three times they lose to one."""
    assert best_plan(profile({1: 10.0, 2: 8.0, 4: 7.0}, stretch=3.0), 4, 8).shares == (
        InstanceShare(4, 8),
    )


def test_a_single_instance_is_never_slowed_by_neighbours_that_are_not_there() -> None:
    times = profile({1: 10.0, 2: 5.0}, stretch=9.0)
    assert priced(times, [InstanceShare(1, 4)]).latency_ns == 40.0
    assert priced(times, [InstanceShare(1, 4), InstanceShare(1, 4)]).latency_ns == 360.0


def test_the_plan_is_never_worse_than_a_plain_choice() -> None:
    for stretch in (1.0, 1.2, 2.0):
        times = profile({1: 10.0, 2: 6.0, 4: 4.0}, stretch)
        for batch in range(1, 9):
            rows = list(plain_choices(times, CORES, 4, batch))
            best = best_plan(times, 4, batch).latency_ns
            assert len(rows) == 4
            assert best <= min(row.plan.latency_ns for row in rows)


def test_torchs_launcher_takes_one_instance_per_node_on_physical_cores() -> None:
    times, two = profile({1: 10.0, 2: 6.0, 4: 4.0}), Topology((0, 1, 2, 3), physical=2, nodes=2)
    rows = {row.name: row.plan.shares for row in plain_choices(times, two, 4, 8)}
    assert rows["torch's launcher (an instance per memory node)"] == (
        InstanceShare(1, 4),
        InstanceShare(1, 4),
    )
    assert "torch's launcher, --latency-mode" not in rows


def test_parts_are_even() -> None:
    assert even_parts(7, 3) == (3, 2, 2)
    with pytest.raises(ServeError, match="1 or more"):
        even_parts(7, 0)


def test_a_profile_says_how_far_it_reaches() -> None:
    with pytest.raises(ServeError, match="reaches to 2 cores and batches of 8"):
        best_plan(profile({1: 1.0, 2: 1.0}), 4, 8)


def test_the_same_instances_get_other_parts_when_only_the_batch_changes() -> None:
    times = profile({1: 10.0, 2: 8.0})
    plans = {size: best_plan(times, 2, size) for size in (1, 2, 4, 8)}
    decision = followed(times, plans[8], plans, 4)
    assert decision.move is Move.DEAL_OTHERWISE
    assert decision.plan.shares == (InstanceShare(1, 2), InstanceShare(1, 2))
    assert followed(times, plans[8], plans, 8).move is Move.STAY


def test_instances_are_renewed_only_where_that_is_worth_it() -> None:
    """For single samples two threads save a fifth; where they save next to nothing, all stays."""
    much, little = profile({1: 10.0, 2: 8.0}), profile({1: 10.0, 2: 9.8})
    for times, move in ((much, Move.RENEW), (little, Move.DEAL_OTHERWISE)):
        plans = {size: best_plan(times, 2, size) for size in (1, 8)}
        assert plans[1].shares == (InstanceShare(2, 1),)
        assert followed(times, plans[8], plans, 1).move is move


def test_an_instance_without_a_part_can_still_take_what_comes_next() -> None:
    times = profile({1: 10.0, 2: 8.0})
    plan = dealt_anew(times, best_plan(times, 2, 8), 1)
    assert plan.shares == (InstanceShare(1, 1), InstanceShare(1, 1))
    assert plan.latency_ns == 10.0


def test_of_divisions_that_were_tried_the_fastest_is_the_plan() -> None:
    """By its points four instances are best, at 20; run beside one of four threads they are not."""
    by_points = profile({1: 10.0, 2: 8.0, 4: 7.0})
    four, one = (InstanceShare(1, 2),) * 4, (InstanceShare(4, 8),)
    tried = replace(by_points, tried=(Tried(four, 70.0, 7), Tried(one, 58.0, 7)))
    plan = best_plan(tried, 4, 8)
    assert (plan.shares, plan.latency_ns) == (one, 58.0)
    assert priced(tried, four).latency_ns == 70.0
    rows = {row.name: row.plan.latency_ns for row in plain_choices(tried, CORES, 4, 8)}
    assert rows["one instance per core"] == 70.0
    assert min(rows.values()) >= plan.latency_ns
    assert best_plan(tried, 4, 4) == best_plan(by_points, 4, 4)


def test_of_equal_divisions_the_one_by_the_points_stays_and_no_more_cores_are_used() -> None:
    by_points = profile({1: 10.0, 2: 8.0, 4: 7.0})
    four, one = (InstanceShare(1, 2),) * 4, (InstanceShare(4, 8),)
    tried = replace(by_points, tried=(Tried(four, 60.0, 7), Tried(one, 60.0, 7)))
    assert best_plan(tried, 4, 8).shares == four
    assert best_plan(tried, 2, 8) == best_plan(by_points, 2, 8)
