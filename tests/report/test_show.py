"""`paceline.show`: the same words as the command line."""

from pathlib import Path

import pytest

import paceline
from paceline.cli import main
from paceline.graph import GraphBuilder, Phase


def run() -> "paceline.Graph":
    b = GraphBuilder()
    lane = b.lane(0, "main thread")
    for step in range(3):
        for name in ("one", "two", "three"):
            b.op(name, lane, 100_000 + step, phase=Phase.FORWARD, layer=name, step=step)
    return b.build()


def test_a_graph_is_shown_as_the_command_line_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paceline.save(run(), tmp_path / "run")
    assert main(["show", str(tmp_path / "run"), "--top", "2"]) == 0
    there = capsys.readouterr().out
    paceline.show(paceline.load(tmp_path / "run"), top=2)
    assert capsys.readouterr().out == there
    assert there.index("where each rank's time goes") < there.index("3 recorded steps")


def test_a_timeline_a_prediction_and_a_difference_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from paceline.compare import side_of_graph

    graph = run()
    paceline.show(paceline.replay(graph))
    assert "Critical path" in capsys.readouterr().out
    paceline.show(paceline.predict(graph))
    assert "rests on" in capsys.readouterr().out
    sides = (side_of_graph(graph, name) for name in ("a", "b"))
    paceline.show(paceline.diff(*sides))
    assert "no difference beyond noise" in capsys.readouterr().out


def test_what_cannot_be_shown_is_named() -> None:
    with pytest.raises(TypeError, match="was given a int, and shows Graph, Timeline"):
        paceline.show(7)
