"""Plans priced by formula and by replay: equal where both are exact, and by hand."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.machine import Machine
from paceline.graph import check
from paceline.place.pipeline import (
    Borders,
    LayerCost,
    Packing,
    PipelinePlan,
    Wires,
    draw,
    memory_bytes,
    price,
    price_in_lab,
    price_on_cores,
    step_ns,
)
from paceline.replay import replay
from paceline.runtime.stages import PipelineSchedule, Shape, TaskKind

FREE = Wires(float("inf"), float("inf"))
S = PipelineSchedule


def equal_stages(count: int, forward: int = 10, backward: int = 20) -> list[LayerCost]:
    return [LayerCost(f"{i}", forward, backward, 4, 1000, 60, 8, 8) for i in range(count)]


def plan(schedule: PipelineSchedule, stages: int, microbatches: int) -> PipelinePlan:
    chunks = 2 if schedule is S.INTERLEAVED else 1
    return PipelinePlan(schedule, Shape(stages, microbatches, chunks), 1)


BY_HAND = [
    (S.GPIPE, 4 * 30 + 30 + 4),  # one stage's pass of bubble
    (S.ONE_F_ONE_B, 4 * 30 + 30 + 4),
    (S.INTERLEAVED, 4 * 30 + 15 + 4),  # half of it with two chunks
    (S.ZERO_BUBBLE, 4 * 30 + 10 + 4),  # F + B - W = 10 + 10 - 10
    (S.TWO_BUFFERED, 4 * 30 + 4),
]


@pytest.mark.parametrize(("schedule", "step"), BY_HAND)
def test_two_stages_and_four_micro_batches_by_hand(schedule: PipelineSchedule, step: int) -> None:
    priced = price(plan(schedule, 2, 4), equal_stages(2), FREE)
    assert priced.formula_step_ns == step
    assert priced.replayed_step_ns == step


def test_packing_takes_the_stages_own_time_before_and_behind_their_passes() -> None:
    borders = Borders((Packing(close_ns=1, open_ns=2, mask_ns=3, restore_ns=5),))
    one = plan(S.GPIPE, 2, 1)
    packed = draw(one, equal_stages(2), replace(FREE, borders=borders), batches=1)
    check(packed)
    plain = draw(one, equal_stages(2), FREE, batches=1)
    assert replay(plain).end_ns.max() == 10 + 10 + 20 + 20 + 4
    assert replay(packed).end_ns.max() == 10 + 1 + 2 + 10 + 20 + 3 + 5 + 20 + 4


def test_stages_behind_the_last_and_before_the_first_border_pack_nothing() -> None:
    borders = Borders((Packing(1, 2, 3, 5),))
    assert borders.taking_ns(0, TaskKind.FORWARD) == 0
    assert borders.giving_ns(1, TaskKind.FORWARD) == 0
    assert borders.taking_ns(1, TaskKind.BACKWARD) == 0
    assert borders.giving_ns(0, TaskKind.BACKWARD) == 0
    assert borders.taking_ns(0, TaskKind.UPDATE) == borders.giving_ns(1, TaskKind.UPDATE) == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 50), st.integers(1, 50))
def test_formula_and_replay_agree_on_equal_stages(d: int, times: int, f: int, b: int) -> None:
    for schedule in (S.GPIPE, S.ONE_F_ONE_B, S.TWO_BUFFERED):
        priced = price(plan(schedule, d, d * times), equal_stages(d, f, b), FREE)
        assert priced.formula_step_ns == priced.replayed_step_ns
        assert priced.formula_memory_bytes == priced.replayed_memory_bytes


@pytest.mark.parametrize("schedule", S)
def test_the_drawn_graph_keeps_the_law(schedule: PipelineSchedule) -> None:
    check(draw(plan(schedule, 4, 4), equal_stages(4), Wires(1e9, 1e9, 3, 2), batches=2))


@pytest.mark.parametrize("schedule", S)
def test_a_slower_link_never_shortens_the_step(schedule: PipelineSchedule) -> None:
    steps = [
        price(plan(schedule, 2, 4), equal_stages(2), Wires(rate, 1e9)).replayed_step_ns
        for rate in (1e12, 2e9, 5e8)
    ]
    assert steps == sorted(steps)


def test_memory_is_the_published_formula() -> None:
    """Of stage 0 of 4, with 8 micro-batches: weights 1000, kept 60, input 8."""
    stages = equal_stages(4)
    first = {s: memory_bytes(plan(s, 4, 8), stages)[0] for s in S}
    assert first[S.TWO_BUFFERED] == 2 * 1000 + 4 * 60
    assert first[S.ONE_F_ONE_B] == 1000 + 4 * 60
    assert first[S.GPIPE] == 1000 + 8 * 60
    lean = replace(plan(S.TWO_BUFFERED, 4, 8), recompute=True)
    assert memory_bytes(lean, stages)[0] == 2 * 1000 + 60 + 4 * 8
    lean = replace(plan(S.GPIPE, 4, 8), recompute=True)
    assert memory_bytes(lean, stages)[0] == 1000 + 60 + 8 * 8


def test_recomputation_costs_a_forward_pass_more() -> None:
    lean = replace(plan(S.TWO_BUFFERED, 2, 4), recompute=True)
    priced = price(lean, equal_stages(2), FREE)
    assert priced.formula_step_ns == priced.replayed_step_ns == 4 * 40 + 4


def test_replicas_add_their_all_reduce_to_the_update() -> None:
    """1,000 bytes over 4 replicas: 2 * 3 / 4 * 1,000 bytes at 1e9 a second are 1,500 ns."""
    wide = replace(plan(S.ONE_F_ONE_B, 2, 4), width=4)
    assert step_ns(wide, equal_stages(2), Wires(1e12, 1e9)) == 150 + 4 + 1500


def test_four_stages_on_two_cores_take_twice_as_long_and_2bw_gains_less() -> None:
    stages = equal_stages(4, 1000, 2000)
    two, gpipe = (
        price_on_cores(plan(s, 4, 8), stages, FREE, Machine(2.0)) for s in (S.TWO_BUFFERED, S.GPIPE)
    )
    assert two.replayed_step_ns == pytest.approx(2 * two.formula_step_ns, rel=0.01)
    assert two.replayed_step_ns < gpipe.replayed_step_ns < 2 * gpipe.formula_step_ns


def test_a_copy_delays_and_where_cores_are_short_takes_their_time() -> None:
    """Two micro-batches are in flight: a round trip of 2 (1000 + 2000) + 4 copies serves two."""
    stages, copies = equal_stages(2, 1000, 2000), Wires(float("inf"), float("inf"), copy_ns=100)
    steps = {
        cores: price_on_cores(
            plan(S.TWO_BUFFERED, 2, 4), stages, copies, Machine(cores)
        ).replayed_step_ns
        for cores in (1, 8)
    }
    assert steps[8] == 4 * (2 * 3000 + 4 * 100) / 2 + 4
    assert steps[1] == pytest.approx(2 * (4 * 3000 + 4) + 4 * 4 * 100, rel=0.01)


def star(stages: int, bytes_per_s: float) -> Cluster:
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(stages))
    return Cluster(hosts, Link.both_ways(bytes_per_s))


ON_TWO_CORES = Machine(cores=2.0, cpu_ns_per_byte=1e-6, message_ns=0)


@pytest.mark.parametrize("schedule", [S.GPIPE, S.ONE_F_ONE_B, S.TWO_BUFFERED])
def test_over_links_without_end_the_lab_is_a_machine_with_shared_cores(schedule: S) -> None:
    stages = equal_stages(4, 1000, 2000)
    in_lab, alone = (
        price_in_lab(plan(schedule, 4, 8), stages, star(4, 1e15), ON_TWO_CORES),
        price_on_cores(plan(schedule, 4, 8), stages, FREE, Machine(2.0)),
    )
    assert in_lab.replayed_step_ns == pytest.approx(alone.replayed_step_ns, rel=0.01)
    assert in_lab.replayed_memory_bytes == alone.replayed_memory_bytes


def test_two_messages_in_flight_serve_two_micro_batches_a_round_trip() -> None:
    """10 MB at a byte a ns take 10 ms; the round trip of two of them is 20 ms and 30 + 30 us."""
    big = [replace(s, input_bytes=10**7) for s in equal_stages(2, 10_000, 20_000)]
    found = price_in_lab(plan(S.TWO_BUFFERED, 2, 4), big, star(2, 1e9), ON_TWO_CORES, 6)
    assert found.replayed_step_ns == pytest.approx(4 * (20_060_000 / 2), rel=0.06)


def test_a_stage_asks_late_for_the_next_message_while_it_passes_one_on() -> None:
    """Its word waits in the queue of its link, where it has one that another stage's data fill."""
    steps = {
        (stages, queue): price_in_lab(
            plan(S.GPIPE, stages, 4),
            [replace(s, input_bytes=400_000) for s in equal_stages(stages, 3 * 10**6, 3 * 10**6)],
            replace(star(stages, 1e8), link=Link(1e8, 1e8, buffer_bytes=queue)),
            replace(ON_TWO_CORES, cpu_ns_per_byte=0.01),
        ).replayed_step_ns
        for stages in (2, 3)
        for queue in (1, 3_000_000)
    }
    assert steps[2, 1] == pytest.approx(steps[2, 3_000_000], rel=1e-3)
    assert steps[3, 1] * 1.03 < steps[3, 3_000_000]


@pytest.mark.parametrize("schedule", [S.GPIPE, S.ONE_F_ONE_B, S.TWO_BUFFERED])
def test_a_slower_link_of_the_lab_never_shortens_the_step(schedule: S) -> None:
    big = [replace(s, input_bytes=10**5) for s in equal_stages(4, 50_000, 90_000)]
    machine = Machine(2.0, 4.0, message_ns=60_000)
    steps = [
        price_in_lab(plan(schedule, 4, 4), big, star(4, rate), machine).replayed_step_ns
        for rate in (1e9, 1e8, 2e7)
    ]
    assert steps == sorted(steps)


def test_work_after_a_rest_takes_longer_and_no_other_work() -> None:
    """Messages of 10 ms or of nothing between passes of 10 and 20 ms."""
    stages = equal_stages(2, 10**7, 2 * 10**7)
    big = [replace(s, input_bytes=10**7) for s in stages]
    cold = replace(ON_TWO_CORES, rested=1.5)
    waits, works = (
        [
            price_in_lab(plan(schedule, 2, 4), costs, star(2, 1e9), machine).replayed_step_ns
            for machine in (ON_TWO_CORES, cold)
        ]
        for schedule, costs in ((S.GPIPE, big), (S.TWO_BUFFERED, stages))
    )
    assert waits[0] * 1.05 < waits[1] < waits[0] * 1.5
    assert works[0] == works[1]


def test_the_senders_thread_spends_its_share_of_a_message() -> None:
    """One core for all: what the thread spends is taken from what the kernel does beside it."""
    big = [replace(s, input_bytes=10**6) for s in equal_stages(2, 10**6, 2 * 10**6)]
    alone = replace(ON_TWO_CORES, cores=1.0, cpu_ns_per_byte=1.0)
    steps = [
        price_in_lab(plan(S.TWO_BUFFERED, 2, 4), big, star(2, 1e15), machine).replayed_step_ns
        for machine in (alone, replace(alone, send_ns_per_byte=0.5))
    ]
    assert steps[0] == pytest.approx(4 * (2 * 3 + 2) * 1e6, rel=0.1)
    assert steps[1] == pytest.approx(steps[0], rel=0.1)
