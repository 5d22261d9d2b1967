"""Plans: files, what they were made for, and what does not go together."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.errors import FileError, GraphError
from paceline.graph import Graph
from paceline.graph.synthetic import TrainingJob, training
from paceline.strategies import (
    MadeFor,
    Plan,
    Predicted,
    StrategyError,
    load_plan,
    made_for,
    parse,
    save_plan,
)
from paceline.strategies.plan import changed, require_fit
from paceline.strategies.sends import Sends, sends_of

GRAPH = training(TrainingJob())
PLAN = Plan((parse("buckets(size_bytes=1048576)"), parse("bf16")), made_for(GRAPH))


def test_a_plan_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    told = Predicted(5_000_000, 4_000_000, 6_000_000, 2.5e6, memory_bytes=7)
    full = replace(PLAN, predicted=told, reasons=("bf16: halves the bytes",))
    for plan in (PLAN, full, Plan(PLAN.strategies), Plan(())):
        save_plan(plan, tmp_path / "plan.json")
        assert load_plan(tmp_path / "plan.json") == plan


def test_a_plan_of_the_first_format_is_read(tmp_path: Path) -> None:
    made = '{"model": "a", "world_size": 2, "version": "0.1.0"}'
    text = f'{{"paceline_plan": 1, "strategies": ["bf16"], "made_for": {made}, "sends": null}}'
    (tmp_path / "plan.json").write_text(text)
    assert load_plan(tmp_path / "plan.json") == Plan((parse("bf16"),), MadeFor("a", 2, "0.1.0"))


def test_what_is_not_known_of_a_job_is_not_held_against_it() -> None:
    made = MadeFor("m", 2, batch_bytes=8, cluster="lan")
    assert changed(Plan((), made), MadeFor("m", 2)) == ()
    assert changed(Plan((), made), MadeFor("m", 2, batch_bytes=16)) == ("batch_bytes",)


def test_a_plan_counts_the_workers_that_its_job_will_have() -> None:
    assert made_for(GRAPH).world_size == 2
    assert made_for(GRAPH, [parse("workers(count=4)")]).world_size == 4
    alone = training(TrainingJob(workers=1))
    with pytest.raises(GraphError):
        parse("fully_sharded").transform(alone)
    assert made_for(alone, [parse("fully_sharded")]).world_size == 1


@pytest.mark.parametrize("pair", [("bf16", "fp16"), ("topk", "int8"), ("bf16", "parameter_server")])
def test_strategies_that_exclude_each_other_make_no_plan(pair: tuple[str, str]) -> None:
    for names in (pair, pair[::-1]):
        with pytest.raises(StrategyError, match="cannot stand in one plan"):
            Plan(tuple(map(parse, names)))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"model": "another"}, "made for the model"),
        ({"world_size": 3}, "made for a number of workers of 2, and this job has 3"),
        ({"version": "9.9"}, "made for Paceline"),
        ({"torch": "9.9"}, "made for torch 2.0, and this job has 9.9"),
    ],
)
def test_a_plan_for_another_job_is_refused(other: dict[str, object], said: str) -> None:
    job = replace(made_for(GRAPH), torch="2.0")
    plan = Plan(PLAN.strategies, job)
    require_fit(plan, job)
    require_fit(Plan(PLAN.strategies), MadeFor("any", 7))
    with pytest.raises(StrategyError, match=said):
        require_fit(plan, replace(job, **other))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no plan"),
        ("[]", "is no plan of format 1 or 2"),
        ('{"paceline_plan": 3, "strategies": []}', "is no plan of format 1 or 2"),
        ('{"paceline_plan": 1}', "strategies must be a list of texts"),
        ('{"paceline_plan": 1, "strategies": [3]}', "strategies must be a list of texts"),
        (
            '{"paceline_plan": 1, "strategies": [], "made_for": {"model": 3}}',
            "made_for does not fit",
        ),
    ],
)
def test_what_is_no_plan_is_refused_with_how_to_write_one(
    text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(FileError, match=said) as told:
        load_plan(tmp_path / "plan.json")
    assert "--save-plan" in str(told.value)


def test_a_plan_that_is_not_there_is_an_error_of_its_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="is no plan"):
        load_plan(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("text", "calls", "payload"),
    [("bf16", 1, 500), ("topk(ratio=0.1)", 1, 2 * 200), ("powersgd(rank=1)", 1, 1000)],
)
def test_a_plan_says_what_a_rank_sends_as_its_graph_does(
    text: str, calls: int, payload: int, recording: Callable[..., Graph], tmp_path: Path
) -> None:
    sends = sends_of(parse(text).transform(shaped(recording(2))))
    assert sends == Sends(calls, payload, payload * (0.5 if text.startswith("topk") else 1.0))
    save_plan(Plan((parse(text),), None, sends), tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json").sends == sends


def shaped(graph: Graph) -> Graph:
    """With its parameters as vectors."""
    told = tuple(replace(p, shape=(p.size_bytes // 4,)) for p in graph.facts.parameters)
    return replace(graph, facts=replace(graph.facts, parameters=told))


def test_a_recording_without_an_exchange_says_nothing_of_it(
    recording: Callable[..., Graph],
) -> None:
    assert sends_of(recording(2, told=False)) is None


@pytest.mark.parametrize(
    "names",
    [
        ("compiled", "checkpoint"),
        ("compiled", "overlap_update"),
        ("bounded_loss", "zero1"),
    ],
)
def test_what_a_live_job_or_a_prediction_cannot_do_together_excludes_each_other(
    names: tuple[str, str],
) -> None:
    with pytest.raises(StrategyError, match="cannot stand in one plan"):
        Plan(tuple(parse(name) for name in names))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("factored(rank=2)", "checkpoint(layers='*')"),
        ("block_circulant", "fused_optimizer"),
        ("substitute", "low_rank"),
    ],
)
def test_layers_are_made_anew_before_what_holds_them_and_behind_what_looks_for_them(
    first: str, second: str
) -> None:
    Plan((parse(first), parse(second)))
    with pytest.raises(StrategyError, match="stands before it; give"):
        Plan((parse(second), parse(first)))
