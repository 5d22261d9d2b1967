"""`paceline diff`, `show --more` and `extract` on runs drawn by hand."""

import json
from pathlib import Path

import pytest

from paceline.analyse import topics
from paceline.cli import _more, main
from paceline.graph import GraphBuilder, OpKind, Phase, save_graph
from paceline.report.text.analyses import ROWS

STEPS = 5


def run(path: Path, layer_us: int, layer: str = "a|[red]<b>") -> str:
    """One rank; a layer whose name is markup, rich's and Markdown's."""
    b = GraphBuilder()
    lane = b.lane(0, "main thread")
    for step in range(STEPS):
        b.op("next", lane, 10_000, kind=OpKind.DATA, phase=Phase.DATA, step=step)
        for name, us in ((layer, layer_us), ("other", 100), ("third", 100)):
            ns = 1_000 * us + 50 * step
            b.op("aten::mm", lane, ns, phase=Phase.FORWARD, layer=name, step=step)
    save_graph(b.build(), path)
    return str(path)


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    return [run(tmp_path / "before", 100), run(tmp_path / "after", 200)]


def test_a_slower_run_names_the_layer_and_fails_the_build(
    two: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *two, "--fail-above", "3%", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "slower"
    assert found["failed"] is True
    assert found["causes"][0]["kind"] == "a layer on all ranks"
    assert found["causes"][0]["layers"] == ["a|[red]<b>"]
    assert found["change"] == pytest.approx(0.32, abs=0.01)


def test_a_limit_above_the_difference_passes(two: list[str]) -> None:
    assert main(["diff", *two, "--fail-above", "0.5"]) == 0


def test_the_same_run_has_no_difference_beyond_noise(
    two: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", two[0], two[0], "--fail-above", "0"]) == 0
    assert "no difference beyond noise (1.0 %)" in capsys.readouterr().out


def test_names_are_text_in_the_terminal_and_in_markdown(
    two: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["diff", *two])
    assert "a|[red]<b>" in capsys.readouterr().out
    main(["diff", *two, "--markdown"])
    said = capsys.readouterr().out
    assert r"a\|\[red\]\<b\>" in said
    assert said.startswith("**after is slower by 100 us")


def test_a_name_of_100_kb_and_what_a_terminal_would_obey_do_no_harm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[31m" + "x" * 100_000
    two = [run(tmp_path / name, us, evil) for name, us in (("a", 100), ("b", 200))]
    for how in ([], ["--markdown"]):
        assert main(["diff", *two, *how]) == 0
        said = capsys.readouterr().out
        assert "\x1b" not in said
        assert len(said) < 5_000


def test_a_limit_that_is_no_share_is_refused(
    two: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["diff", *two, "--fail-above", "much"])
    assert "such as 3% or 0.03" in capsys.readouterr().err


def test_the_command_line_offers_every_topic() -> None:
    assert set(_more.TOPICS) == set(topics.TOPICS) == set(ROWS)


@pytest.mark.parametrize("topic", ["device", "idle", "kernels", "sequences", "launches", "copies"])
def test_every_topic_of_a_graph_is_shown_and_told(
    two: list[str], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", two[0], "--more", topic]) == 0
    capsys.readouterr()
    assert main(["show", two[0], "--more", topic, "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == [topic]


def test_traces_without_hardware_counters_are_said_to_have_none() -> None:
    assert _more.shown("counters", (), 5) == "the traces hold no hardware counters"


@pytest.mark.parametrize("topic", ["tree", "shapes", "counters"])
def test_topics_that_need_traces_say_so(
    two: list[str], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", two[0], "--more", topic]) == 1
    assert "keeps no trace files" in capsys.readouterr().err
