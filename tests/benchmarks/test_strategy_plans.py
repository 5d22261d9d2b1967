"""Which strategies are measured in which jobs, and which of them first."""

from benchmarks.accuracy import strategy_plans
from benchmarks.accuracy.strategy_plans import (
    ASKED,
    NOT_HERE,
    PAIRS,
    SHAPES,
    Cell,
    Job,
    in_turn,
)

from paceline.strategies import Plan, kind_of, known, parse


def test_every_strategy_that_applies_has_rows_or_says_why_not() -> None:
    applying = {name for name in known() if kind_of(name).applies}
    rows = [*strategy_plans.singles(), *strategy_plans.shapes()]
    asked = {parse(text).__class__ for _, (text,) in rows}
    assert asked == {kind_of(name) for name in applying - NOT_HERE.keys()}
    assert ASKED.keys() | NOT_HERE.keys() | SHAPES.keys() <= applying


def test_workers_that_share_one_model_are_a_set_of_their_own() -> None:
    rows = strategy_plans.shapes()
    assert {cell.kept for cell, _ in rows} == {"strategies-shapes"}
    assert {cell.kept for cell, _ in strategy_plans.singles()} == {"strategies"}
    only = strategy_plans.shapes(["tensor_parallel"])
    assert len(only) == 12
    assert set(only) < set(rows)


def test_a_setting_is_told_what_it_needs_of_the_cell() -> None:
    rows = {cell: text for cell, (text,) in strategy_plans.singles(["bounded_loss"])}
    assert rows[Cell(Job("mlp"), 4, 100)] == "bounded_loss(link_mbit_per_s=100)"
    (text,) = {text for _, (text,) in strategy_plans.singles(["uneven_batches"])}
    assert text == "uneven_batches(shares=(2.0, 1.0))"


def test_a_threshold_is_measured_behind_the_steps_in_which_it_still_grows() -> None:
    assert strategy_plans.settles_in(("threshold",)) == 20
    assert strategy_plans.settles_in(("buckets(size_bytes=1)", "threshold")) == 20
    assert strategy_plans.settles_in(("topk",)) == strategy_plans.settles_in(()) == 0


def test_pairs_are_drawn_alike_every_time_and_can_stand_together() -> None:
    drawn = strategy_plans.pairs()
    assert drawn == strategy_plans.pairs()
    assert len({frozenset(plan) for _, plan in drawn}) == len(drawn) == PAIRS
    for _, plan in drawn:
        assert len(Plan(tuple(parse(text) for text in plan)).strategies) == 2


def test_what_no_row_tells_of_comes_first_and_the_order_is_fixed() -> None:
    rows = strategy_plans.singles(["fp16", "int8"])
    told = [("fp16",)]
    turn = in_turn(rows, told)
    names = [text for _, (text,) in turn]
    assert names == ["int8"] * 12 + ["fp16"] * 12
    assert turn == in_turn(reversed(rows), told)
    assert [cell for cell, _ in turn[:12]] != [cell for cell, _ in turn[12:]]


def test_kept_rows_of_plain_jobs_keep_their_names() -> None:
    assert Cell(Job("mlp"), 2, 100).key(("fp16",)) == "mlp x2 100 Mbit/s: fp16"
    assert Cell(Job("mlp", "fsdp2"), 2, 0).key(("a", "b")) == "mlp fsdp2 x2 one host: a + b"
