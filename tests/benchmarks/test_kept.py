"""A long benchmark goes on where it was stopped."""

from pathlib import Path

import pytest

from benchmarks import kept, measure


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "RESULTS", tmp_path)


def test_a_row_is_made_once_and_kept() -> None:
    made: list[str] = []

    def make() -> kept.Row:
        made.append("a")
        return {"error": 0.5}

    first = kept.rows("trial", {"a": make}, 1)
    again = kept.rows("trial", {"a": make}, 1)
    assert made == ["a"]
    assert first == again
    assert again["a"]["error"] == 0.5
    assert "load" in again["a"]


def test_without_time_only_what_is_kept_comes_back() -> None:
    kept.rows("trial", {"b": lambda: {"error": 1.0}}, 1)
    makers = {"a": lambda: {"error": 2.0}, "b": lambda: {"error": 3.0}}
    found = kept.rows("trial", makers, 0)
    assert {name: row["error"] for name, row in found.items()} == {"b": 1.0}


def test_rows_of_another_machine_do_not_count_and_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    kept.rows("trial", {"a": lambda: {"error": 1.0}}, 1)
    here = measure.machine()
    monkeypatch.setattr(measure, "machine", lambda: {"cpu": "another"})
    assert kept.rows("trial", {"a": lambda: {"error": 2.0}}, 1)["a"]["error"] == 2.0
    assert kept.load("trial")["a"]["error"] == 2.0
    monkeypatch.setattr(measure, "machine", lambda: here)
    assert kept.load("trial")["a"]["error"] == 1.0


def test_a_row_that_fails_leaves_those_before_it() -> None:
    def fails() -> kept.Row:
        raise RuntimeError("the network is gone")

    with pytest.raises(RuntimeError, match="the network is gone"):
        kept.rows("trial", {"a": lambda: {"error": 1.0}, "b": fails}, 1)
    assert list(kept.load("trial")) == ["a"]


def test_a_row_that_cannot_be_made_is_told_and_leaves_the_others_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails() -> kept.Row:
        raise kept.NotMade("the job needs snntorch")

    makers = {"a": fails, "b": lambda: {"error": 1.0}}
    assert list(kept.rows("trial", makers, 1)) == ["b"]
    assert "a: not made: the job needs snntorch" in capsys.readouterr().err
    makers["a"] = lambda: {"error": 2.0}
    assert list(kept.rows("trial", makers, 1)) == ["a", "b"]


def test_fresh_rows_are_made_anew_and_others_stay() -> None:
    kept.rows("trial", {"a": lambda: {"error": 1.0}, "b": lambda: {"error": 1.0}}, 1)
    kept.rows("trial", {"a": lambda: {"error": 2.0}}, 1, fresh=True)
    assert {key: row["error"] for key, row in kept.load("trial").items()} == {"a": 2.0, "b": 1.0}
