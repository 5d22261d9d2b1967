"""Changes written as text, and what is said where the text is wrong."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.graph.synthetic import TrainingJob, training
from paceline.strategies import StrategyError, known, named, parse, strategy, transformed
from paceline.strategies.buckets import Buckets
from paceline.strategies.scale import Scale
from paceline.strategies.workers import Workers


def test_every_file_of_the_room_that_defines_a_strategy_is_known_by_its_name() -> None:
    folder = Path(named.__file__).parent
    texts = {file.stem: file.read_text() for file in folder.glob("*.py")}
    defining = {stem for stem, text in texts.items() if _defines_one(text)}
    others = {"remodelling", "sparse", "plan"}  # on two, others are built; a plan is no strategy
    assert set(known()) == defining - others
    assert list(known()) == sorted(known())


def _defines_one(text: str) -> bool:
    """A frozen dataclass that is built on another class of strategies."""
    return re.search(r"^@dataclass\(frozen=True\)\nclass \w+\((\w+)\):", text, re.M) is not None


def test_a_change_is_written_as_its_name_and_settings() -> None:
    assert parse("workers(count=4)") == Workers(count=4)
    assert parse(" buckets(size_bytes=4, first_size_bytes=1) ") == Buckets(4, 1)
    assert parse("parameter_server") == parse("parameter_server()")


@given(st.text(), st.floats(0, 1e6))
def test_a_change_shown_as_text_is_read_back(select: str, factor: float) -> None:
    change = Scale(select, factor)
    assert parse(str(change)) == change


def test_changes_are_made_in_turn() -> None:
    graph = training(TrainingJob())
    plan = [parse("workers(count=4)"), parse("workers(count=3)")]
    assert transformed(graph, plan).world_size == 3
    assert transformed(graph, []) is graph


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worker(count=4)", "did you mean workers"),
        ("flux()", "called .flux.. Known are accumulate, adaptive_topk"),
        ("workers", r"workers needs count, as in workers\(count=...\)"),
        ("workers(cuont=4)", "workers has no setting 'cuont'; it has count"),
        ("parameter_server(count=4)", "it has none"),
        ("workers(4)", "is not a strategy; write NAME"),
        ("workers(**x)", "is not a strategy"),
        ("workers(count=x)", "is not a strategy"),
        ("workers(count=", "is not a strategy"),
        ("", "is not a strategy"),
        ("3 + 4", "is not a strategy"),
        ("workers(count=4, count=8)", "gives count twice"),
        ("batch(factor=1e999)", "factor must be finite, not inf"),
        ("uneven_batches(shares=(1.0, 1e999))", "shares must be finite"),
    ],
)
def test_text_that_is_no_change_is_refused_with_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(StrategyError, match=said):
        parse(text)


@pytest.mark.parametrize("text", ["workers(count='4')", "workers(count=2.5)", "batch(factor='2')"])
def test_a_setting_of_the_wrong_type_is_refused(text: str) -> None:
    with pytest.raises(StrategyError, match="must be"):
        parse(text)


def test_settings_may_be_given_apart_from_the_name() -> None:
    assert strategy("workers", count=4) == Workers(4)
