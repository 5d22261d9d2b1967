"""A CPU quota: a budget for each period, which waiting brings back and a border makes whole."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import ReplayError
from paceline.replay.quota import Budget, Quota, worked

PHASES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=12)
QUOTAS = st.tuples(st.integers(1, 20), st.integers(1, 20)).map(
    lambda both: Quota(min(both) / max(both), max(both))
)


def stepped(quota: Quota, phases: list[tuple[int, int]], border: int) -> list[int]:
    """Nanosecond by nanosecond: the budget is made whole at borders, and spent by work."""
    now, ends, left = 0, [], quota.budget_ns
    for waiting, work in phases:
        until = now + waiting
        while now < until or work:
            if (now - border) % quota.period_ns == 0:
                left = quota.budget_ns
            if now >= until and left:
                left, work = left - 1, work - 1
            now += 1
        ends.append(now)
    return ends


@given(QUOTAS, PHASES, st.integers(-30, 30))
def test_work_ends_when_a_plain_simulation_says(
    quota: Quota, phases: list[tuple[int, int]], border: int
) -> None:
    assert worked(quota, phases, border)[0] == stepped(quota, phases, border)


@given(QUOTAS, PHASES)
def test_work_is_never_faster_than_its_core_nor_slower_than_a_budget_a_period(
    quota: Quota, phases: list[tuple[int, int]]
) -> None:
    alone = sum(waiting + work for waiting, work in phases)
    work = sum(work for _, work in phases)
    most = alone + (-(-work // quota.budget_ns)) * (quota.period_ns - quota.budget_ns)
    assert alone <= worked(quota, phases)[1] <= most + quota.period_ns


@given(QUOTAS, st.integers(1, 10**4))
def test_without_waiting_work_takes_work_over_the_quota(quota: Quota, work: int) -> None:
    end = worked(quota, [(0, work)])[1]
    assert abs(end - work * quota.period_ns / quota.budget_ns) <= quota.period_ns


@given(QUOTAS, st.integers(1, 50))
def test_a_budget_that_is_never_spent_delays_nothing(quota: Quota, rounds: int) -> None:
    waiting = 2 * quota.period_ns
    ends, _ = worked(quota, [(waiting, quota.budget_ns)] * rounds)
    if quota.budget_ns == quota.period_ns:
        assert ends == [(waiting + quota.budget_ns) * (n + 1) for n in range(rounds)]
    half = quota.budget_ns // 2
    ends, _ = worked(quota, [(waiting, half)] * rounds)
    assert ends == [(waiting + half) * (n + 1) for n in range(rounds)]


@given(PHASES)
def test_a_whole_core_is_no_quota(phases: list[tuple[int, int]]) -> None:
    alone = sum(waiting + work for waiting, work in phases)
    assert worked(Quota(1.0, 20), phases)[1] == alone


def test_a_fifth_of_a_core_by_hand() -> None:
    """A budget of 4 in periods of 20."""
    budget = Budget(Quota(0.2, 20))
    assert budget.worked(5, 1) == 6
    assert budget.worked(10, 4) == 21
    assert budget.worked(21, 3) == 24
    assert budget.worked(30, 9) == 81  # nothing is left: 4 behind 40, 4 behind 60, 1 behind 80
    assert budget.worked(99, 2) == 101  # one on either side of a border


@given(QUOTAS, PHASES, st.integers(0, 9), st.integers(1, 20))
def test_rests_cost_the_work_behind_them_at_most_as_much_again(
    quota: Quota, phases: list[tuple[int, int]], cold: int, rest: int
) -> None:
    warm = worked(quota, phases)[1]
    found = worked(replace(quota, cold_ns=cold, rest_ns=rest), phases)[1]
    doubled = worked(quota, [(waiting, 2 * work) for waiting, work in phases])[1]
    assert found >= warm or not cold
    assert found <= 2 * doubled + quota.period_ns
    assert worked(replace(quota, cold_ns=cold, rest_ns=10**9), phases)[1] == warm
    assert worked(replace(quota, rest_ns=rest), phases)[1] == warm


def test_what_rests_cost_by_hand() -> None:
    """A budget of 10 in periods of 20; a rest of 5 or more costs 2."""
    budget = Budget(Quota(0.5, 20, cold_ns=2, rest_ns=5))
    assert budget.worked(0, 4) == 4
    assert budget.worked(7, 2) == 9  # three are no rest
    assert budget.worked(14, 1) == 16  # five are: one takes twice as long
    assert budget.worked(16, 3) == 22  # so does one more; two are left, to stand two is no rest
    assert budget.worked(22, 19) == 65  # 8 until 30, of 11 and 2 more 10 until 50, of 3 and 2 all


def test_rounds_of_much_waiting_are_not_slowed_and_rounds_of_little_take_work_over_quota() -> None:
    quota = Quota(0.2, 20_000)
    free, bound = [(19_000, 2_000)] * 400, [(5_000, 4_800)] * 400
    assert worked(quota, free)[1] < 1.05 * 400 * 21_000
    assert worked(quota, bound)[1] == pytest.approx(400 * 24_000, rel=0.01)


@pytest.mark.parametrize(("cpus", "period"), [(0.0, 20), (1.5, 20), (0.5, 0), (0.001, 20)])
def test_a_quota_is_a_share_of_a_core(cpus: float, period: int) -> None:
    with pytest.raises(ReplayError, match="share of one core"):
        Quota(cpus, period)
