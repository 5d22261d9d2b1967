"""Each cause put into a job drawn by hand is what `diff` names first, with the time put in."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.compare import CauseKind, Side, diff, side_of_graph
from paceline.graph import Collective, GraphBuilder, LaneKind, OpKind, Phase

US = 1_000
Sides = Callable[..., Side]


@pytest.mark.parametrize(
    ("kind", "changes", "put_in_us"),
    [
        (CauseKind.LAYER_ON_RANK, {"late": {(1, "two"): 90.0}}, 90),
        (CauseKind.RANK, {"late": {(0, "one"): 40.0, (0, "two"): 50.0}}, 90),
        (CauseKind.INPUT, {"input_us": 100.0}, 90),
        (CauseKind.LINK, {"message_us": 900.0}, 600),
        (CauseKind.BUCKETS, {"messages": 3, "message_us": 420.0}, 120),
        (CauseKind.VOLUME, {"sent_bytes": 2_400_000, "message_us": 600.0}, 300),
        (CauseKind.CORE, {"core_us": 80.0}, 80),
        (CauseKind.OPTIMIZER, {"update": "aten::addcdiv_", "update_us": 120.0}, 70),
    ],
)
def test_what_was_put_in_is_named_first(
    side: Sides, kind: CauseKind, changes: dict[str, Any], put_in_us: float
) -> None:
    found = diff(side(), side(**changes))
    assert found.causes[0].kind is kind
    assert found.causes[0].share_ns == pytest.approx(put_in_us * US, rel=0.02)


def test_a_slow_layer_says_which_rank_and_which_layer(side: Sides) -> None:
    cause = diff(side(), side(late={(1, "two"): 90.0})).causes[0]
    assert (cause.rank, cause.layers) == (1, ("two",))


def test_a_layer_that_is_slower_on_all_ranks_is_named_alone(side: Sides) -> None:
    usual, slow = ({"one": 100.0, "two": 90.0, "three": us} for us in (50.0, 250.0))
    cause = diff(side(layers=usual), side(layers=slow)).causes[0]
    assert (cause.kind, cause.layers) == (CauseKind.LAYER, ("three",))
    assert cause.share_ns == pytest.approx(400 * US, rel=0.02)


def test_a_larger_batch_takes_all_forward_and_backward_work(side: Sides) -> None:
    larger = side(layers={"one": 200.0, "two": 400.0}, batch_bytes=2048)
    cause = diff(side(), larger).causes[0]
    assert cause.kind is CauseKind.BATCH
    assert (cause.before, cause.after) == (1024, 2048)
    assert cause.share_ns == pytest.approx(600 * US, rel=0.02)


def test_replaced_operators_are_named_with_those_that_they_replace(side: Sides) -> None:
    slow = side(layers={"one": 150.0, "two": 300.0}, operator="aten::einsum")
    cause = diff(side(), slow).causes[0]
    assert cause.kind is CauseKind.REPLACED
    assert cause.gone == ("aten::addmm",)
    assert cause.come == ("aten::einsum",)


def test_work_that_is_slower_everywhere_is_no_single_layers(side: Sides) -> None:
    cause = diff(side(), side(layers={"one": 150.0, "two": 250.0})).causes[0]
    assert cause.kind is CauseKind.WORK


def test_transfers_of_threads_without_a_core_are_laid_to_the_cores(side: Sides) -> None:
    cause = diff(side(), side(core_us=80.0, message_us=400.0)).causes[0]
    assert cause.kind is CauseKind.CORE
    assert cause.share_ns == pytest.approx(180 * US, rel=0.02)


def hidden(message_us: float) -> Side:
    """Two ranks that send one message beside 300 us of work that does not need it, five times."""
    b = GraphBuilder()
    group = b.group("world", (0, 1))
    main = [b.lane(rank, "main thread") for rank in (0, 1)]
    wire = [b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD) for rank in (0, 1)]
    for step in range(5):
        met = b.instance()
        for rank in (0, 1):
            mm = {"step": step, "layer": "one"}
            first = b.op("mm", main[rank], 100 * US, phase=Phase.FORWARD, **mm)
            b.op("mm", main[rank], 300 * US, phase=Phase.BACKWARD, **mm)
            sent = b.op(
                "all_reduce", wire[rank], round(US * message_us), kind=OpKind.COLLECTIVE,
                collective=Collective.ALL_REDUCE, group=group, instance=met, step=step,
                size_bytes=1_000_000, after=[first],
            )  # fmt: skip
            b.op("add_", main[rank], 50 * US, phase=Phase.UPDATE, step=step, after=[sent])
    return side_of_graph(b.build(), f"{message_us} us")


def test_what_the_path_leaves_of_unchanged_work_is_the_messages_doing() -> None:
    found = diff(hidden(250.0), hidden(400.0))
    (first,) = (cause for cause in found.causes if abs(cause.share_ns) > US)
    assert first.kind is CauseKind.LINK
    assert first.share_ns == pytest.approx(100 * US, rel=0.01)


def test_a_far_slower_link_is_not_laid_to_cores_that_are_a_little_busy(side: Sides) -> None:
    assert diff(side(), side(core_us=80.0, message_us=1_500.0)).causes[0].kind is CauseKind.LINK


def test_another_number_of_workers_explains_communication(side: Sides) -> None:
    found = diff(side(), side(ranks=4, message_us=600.0))
    assert found.causes[0].kind is CauseKind.WORKERS
    assert found.ranks == ()


def test_different_models_are_told_so_and_compared_as_far_as_they_go(side: Sides) -> None:
    other = side(layers={"conv": 300.0, "head": 500.0}, operator="aten::conv2d")
    found = diff(side(), other)
    assert not found.same_model
    assert found.causes[0].kind is CauseKind.MODEL


def test_a_run_that_became_faster_names_what_made_it_so(side: Sides) -> None:
    found = diff(side(input_us=100.0), side())
    assert found.causes[0].kind is CauseKind.INPUT
    assert found.causes[0].share_ns < 0


@settings(max_examples=15, deadline=None)
@given(
    late=st.floats(0, 300), input_us=st.floats(0, 200), link=st.floats(10, 900),
    core=st.floats(0, 100), messages=st.integers(1, 4), plain=st.integers(500_000, 2_000_000),
)  # fmt: skip
def test_causes_sum_to_the_difference_and_classes_to_that_of_the_recorded_steps(
    late: float, input_us: float, link: float, core: float, messages: int, plain: int
) -> None:
    from paceline.compare.noise import Steps

    before, after = (drawn(*each) for each in ((0.0, 10.0, 300.0, 0.0, 1),
                                               (late, input_us, link, core, messages)))  # fmt: skip
    a = side_of_graph(before, "a", Steps(((900_000, 910_000, 905_000),)))
    b = side_of_graph(after, "b", Steps(((plain, plain + 10_000, plain + 5_000),)))
    found = diff(a, b)
    recorded = b.recorded_ns - a.recorded_ns
    assert sum(cause.share_ns for cause in found.causes) == pytest.approx(found.change_ns, abs=1)
    assert sum(row.change_ns for row in found.classes) == pytest.approx(recorded, abs=1)
    assert sum(row.change_ns for row in found.layers) == pytest.approx(recorded, abs=1)


def drawn(late: float, input_us: float, link: float, core: float, messages: int) -> Any:
    """One rank's steps with all of these in them."""
    b = GraphBuilder()
    main = b.lane(0, "main thread")
    for step in range(3):
        b.op("next", main, round(US * input_us), kind=OpKind.DATA, phase=Phase.DATA, step=step)
        b.op("wait", main, round(US * core), kind=OpKind.CORE_WAIT, step=step)
        b.op("mm", main, round(US * (100 + late)), phase=Phase.FORWARD, layer="one", step=step)
        for _ in range(messages):
            b.op("send", main, round(US * link), kind=OpKind.TRANSFER, size_bytes=1000, step=step)
    return b.build()
