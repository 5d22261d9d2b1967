"""What sharing cores costs, from the times of all-reduces."""

from typing import Any

import pytest

from paceline.measure.sharing import SIZE_BYTES, costs

LINKS_ALONE_S = 1.5 * SIZE_BYTES / 125e6


def times(**changed: Any) -> dict[str, Any]:
    """Seconds as four workers on two cores could measure them: 100 us a call, 50 us a message, 200
    and more where it holds bytes."""
    members = {str(n): [100e-6 + 50e-6 * 4 * (n - 1)] * 2 for n in (2, 3, 4)}
    stalls = {str(n): [100e-6 + 1e-4 * n * 4 * (n - 1)] * 3 for n in (2, 3, 4)}
    usual = {"large": [0.4, 0.5, 0.45], "idle": [1e-3] * 9, "busy": [25e-3] * 9}
    rests = {"row": [(4e-3, 6e-3)] * 2, "after": {"2": [(4e-3, 6e-3)] * 2}, "behind": []}
    together = {"0": [1e-3], "2": [6e-3], "4": [12e-3], "8": [19e-3]}
    alone = {"alone": [1e-3] * 3}
    crowd = {"product": {**alone, "together": [1.1e-3] * 3},
             "pass": {**alone, "together": [1.6e-3] * 3}}  # fmt: skip
    steps = {"plain": [(1e-5, 2e-5, 3e-5)] * 3, "cut": [(3e-4, 6e-4, 1e-3)] * 3}
    few = {"members": members, "stalls": stalls}
    beside = {"crowding": crowd, "together": together}
    by_itself = {"rests": rests, "dtensors": steps, "blocks": {"1": block(1), "8": block(8)}}
    return {**usual, **few, **beside, **by_itself, **changed}


def block(weights: int) -> dict[str, list[tuple[float, float]]]:
    """300 us a gather and 20 for each weight, 100 us a reduction and 10 for each; calls of 30 and
    200 us, and passes of 1 and 2 ms."""
    gather, reduce = 300e-6 + weights * 20e-6, 100e-6 + weights * 10e-6
    cut = (1e-3 + gather + 30e-6, 2e-3 + gather + reduce + 230e-6)
    return {"plain": [(1e-3, 2e-3)] * 3, "cut": [cut] * 3, "calls": [(30e-6, 200e-6)] * 3}


def test_a_byte_costs_all_cores_time_over_all_bytes_sent() -> None:
    found = costs(times(), cores=2, payload_share=1.0)
    sent_by_all = 4 * 1.5 * SIZE_BYTES
    assert found.cpu_ns_per_byte.value == pytest.approx(0.4 * 2 / sent_by_all * 1e9)
    assert found.cpu_ns_per_byte.high == pytest.approx(0.45 * 2 / sent_by_all * 1e9)
    assert found.cpu_ns_per_byte.low == found.cpu_ns_per_byte.value
    assert found.limited_by_cores


def test_where_the_links_are_the_limit_it_is_said() -> None:
    made = costs(times(large=[LINKS_ALONE_S]), cores=2, payload_share=1.0)
    assert not made.limited_by_cores
    assert made.cpu_ns_per_byte.low == 0


def test_a_turn_is_what_work_adds_by_message_and_by_thread_on_a_core() -> None:
    """24 ms over 6 messages and 2 threads on each core."""
    found = costs(times(), cores=2, payload_share=1.0).turn_ns
    assert found.value == pytest.approx(2e6)
    assert found.low == pytest.approx(found.high)


def test_turns_that_differ_leave_an_interval_around_them() -> None:
    found = costs(times(busy=[20e-3, 30e-3] * 5), cores=2, payload_share=1.0).turn_ns
    assert found.low < found.value < found.high


def test_a_call_and_its_messages_are_told_apart_by_the_number_of_workers() -> None:
    found = costs(times(), cores=2, payload_share=1.0)
    assert found.call_ns is not None
    assert found.message_ns is not None
    assert found.call_ns.value == pytest.approx(100e3)
    assert found.message_ns.value == pytest.approx(50e3)


@pytest.mark.parametrize("members", [{"2": [3e-4]}, {"2": [4e-4], "3": [3e-4], "4": [2e-4]}])
def test_where_no_line_goes_through_the_times_a_call_is_not_known(members: dict[str, Any]) -> None:
    found = costs(times(members=members), cores=2, payload_share=1.0)
    assert found.call_ns is None
    assert not found.constants().keys() & {"call_ns", "message_ns", "stall_ns"}


def test_stalls_are_what_all_reduces_of_a_page_take_of_each_message() -> None:
    found = costs(times(), cores=2, payload_share=1.0).stall_ns
    assert found is not None
    assert (found.low, found.value, found.high) == pytest.approx((2e5, 3e5, 4e5))


def test_the_machine_has_what_was_measured_and_defaults_for_the_rest() -> None:
    found = costs(times(members={"2": [3e-4]}), cores=2, payload_share=1.0)
    machine = found.machine()
    assert machine.cores == 2
    assert machine.cpu_ns_per_byte == found.cpu_ns_per_byte.value
    assert machine.defaults == ("call_ns", "message_ns")


def test_the_costs_of_rests_are_the_machines() -> None:
    cold = [(6e-3, 9e-3)] * 3
    rests = {"row": [(4e-3, 6e-3)] * 2, "after": {"2": cold, "8": cold}, "behind": [cold]}
    assert not costs(times(), cores=2, payload_share=1.0).machine().rests.cost
    found = costs(times(rests=rests), cores=2, payload_share=1.0).machine().rests
    assert found.factor == pytest.approx(1.5)
    assert found.least_ns == pytest.approx(1e6)
    assert found.warm_ns == pytest.approx(45e6)


def test_a_dtensor_costs_what_a_product_takes_longer_with_it() -> None:
    found = costs(times(), cores=2, payload_share=1.0).machine()
    assert found.dtensor_forward_ns == pytest.approx(290e3)
    assert found.dtensor_backward_ns == pytest.approx(580e3)
    assert found.dtensor_update_ns == pytest.approx(970e3)


def test_a_dtensor_that_costs_nothing_by_chance_is_none_below_zero() -> None:
    same = {"plain": [(2e-5, 2e-5, 2e-5)] * 3, "cut": [(1e-5, 2e-5, 3e-5)] * 3}
    found = costs(times(dtensors=same), cores=2, payload_share=1.0)
    assert found.dtensor_forward_ns is not None
    assert found.dtensor_forward_ns.value == 0


def test_a_block_costs_what_its_passes_take_longer_beside_their_calls() -> None:
    found = costs(times(), cores=2, payload_share=1.0).machine()
    assert found.gathered_block_ns == pytest.approx(300e3)
    assert found.gathered_weight_ns == pytest.approx(20e3)
    assert found.reduced_block_ns == pytest.approx(100e3)
    assert found.reduced_weight_ns == pytest.approx(10e3)


def test_work_beside_all_others_is_longer_by_kind() -> None:
    found = costs(times(), cores=2, payload_share=1.0).machine()
    assert (found.crowded_product, found.crowded_pass) == pytest.approx((1.1, 1.6))


def test_work_that_all_begin_at_once_ends_later_than_by_fair_shares() -> None:
    """1, 3 and 2 ms behind twice 2, 4 and 8 ms and a reduction of 1 ms."""
    found = costs(times(), cores=2, payload_share=1.0).together_ns
    assert found is not None
    assert (found.low, found.value, found.high) == pytest.approx((1e6, 2e6, 3e6))
