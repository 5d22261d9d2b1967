"""What a page fault costs a job: its plain steps tell, and a loop where they do not."""

import pytest

from paceline.record import torch_faults
from paceline.record.torch_profile import Counted, LoopCosts, Taken, Times, cost_of

LOOP_NS = 1000.0
LOOPS = LoopCosts(op_ns=200.0, call_ns=0.0, fault_ns=LOOP_NS)


def steps(price_ns: int, *faults: int, off_ns: int = 0) -> list[Times]:
    """Steps of 10 ms and their faults, each off by as much, up and down in turn."""
    took = [10_000_000 + price_ns * n + (-1) ** at * off_ns for at, n in enumerate(faults)]
    return [Times(wall_ns=ns, cpu_ns=ns, faults=n) for ns, n in zip(took, faults)]


def fault_cost_ns(plain: list[Times]) -> float:
    return torch_faults.fault_cost_ns([x.faults for x in plain], [x.cpu_ns for x in plain], LOOP_NS)


def test_steps_that_differ_by_faults_alone_tell_their_price() -> None:
    assert fault_cost_ns(steps(1500, 0, 4000, 1000, 3000)) == pytest.approx(1500)


def test_the_less_sure_the_steps_the_more_counts_the_loop() -> None:
    faults = (0, 4000, 4000, 0, 2000, 2000)
    found = [fault_cost_ns(steps(1500, *faults, off_ns=ns)) for ns in (0, 10**6, 10**7, 10**9)]
    assert found == sorted(found, reverse=True)
    assert found[0] == pytest.approx(1500)
    assert found[-1] == pytest.approx(LOOP_NS, rel=0.01)


def test_few_steps_or_steps_with_as_many_faults_tell_nothing() -> None:
    assert fault_cost_ns(steps(1500, 0, 4000)) == LOOP_NS
    assert fault_cost_ns(steps(1500, 9, 9, 9, 9)) == LOOP_NS


def test_work_that_comes_with_pages_is_not_taken_for_their_price() -> None:
    assert fault_cost_ns(steps(50_000, 0, 4000, 1000, 3000)) == 3 * LOOP_NS
    assert fault_cost_ns(steps(-500, 0, 4000, 1000, 3000)) == LOOP_NS


def test_an_event_costs_what_recorded_steps_run_beyond_plain_ones_but_for_faults() -> None:
    """Plain steps have 2,000 faults more, which hide that recording took 600 us for 2,000 ops."""
    plain = steps(1500, 0, 4000, 2000, 1000, 3000)
    recorded = [Times(10_600_000, 10_600_000, 0) for _ in range(5)]
    found = cost_of(Taken(plain, recorded, [], []), Counted(ops=2000, calls=0), LOOPS)
    assert found.op_ns == pytest.approx(300)
    assert found.fault_ns == pytest.approx(1500)


def test_steps_behind_the_recorded_ones_that_are_spared_pages_tell_their_price() -> None:
    """All plain steps of one side have as many faults: only the other side tells what one costs."""
    before, after = steps(2000, *[4000] * 5), steps(2000, *[100] * 5)
    recorded = [Times(10_800_000, 10_800_000, 100) for _ in range(5)]
    found = cost_of(Taken(before, recorded, [], after), Counted(ops=2000, calls=0), LOOPS)
    assert found.fault_ns == pytest.approx(2000)
    assert found.op_ns == pytest.approx(300)
    alone = cost_of(Taken(before, recorded, [], []), Counted(ops=2000, calls=0), LOOPS)
    assert alone.fault_ns == LOOP_NS


def test_a_machine_that_slows_down_is_no_price_of_events() -> None:
    """Plain steps take 10 ms before and 11 behind; recorded ones lie between, and 600 us above."""
    before, after = steps(0, *[0] * 5), steps(1_000_000, *[1] * 5)
    recorded = [Times(11_100_000, 11_100_000, 0) for _ in range(5)]
    found = cost_of(Taken(before, recorded, [], after), Counted(ops=2000, calls=0), LOOPS)
    assert found.op_ns == pytest.approx(300, rel=0.01)
