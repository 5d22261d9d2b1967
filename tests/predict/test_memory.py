"""The peak of a prediction, and whether a limit holds it."""

import json
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.graph import Facts, Graph, GraphBuilder, MemoryCategory, Phase, RankMemory, save_graph
from paceline.predict import predict


@pytest.fixture
def graph() -> Graph:
    """Two ranks with 6,000 bytes of weights; the second's activations are larger."""
    memory = tuple(RankMemory(rank, weights=6000) for rank in range(2))
    b = GraphBuilder(facts=Facts(world_size=2, memory=memory))
    for rank, size in ((0, 1000), (1, 3000)):
        lane = b.lane(rank)
        b.allocate(b.op("forward", lane, 5, phase=Phase.FORWARD), size, MemoryCategory.ACTIVATIONS)
        back = b.op("backward", lane, 5, phase=Phase.BACKWARD)
        b.allocate(back, -size, MemoryCategory.ACTIVATIONS, at_end=True)
    return b.build()


def test_a_prediction_has_the_peak_of_every_rank(graph: Graph) -> None:
    memory = predict(graph).memory
    assert memory is not None
    assert [peak.peak_bytes for peak in memory.ranks] == [7000, 9000]
    assert memory.by_category == {"weights": 6000, "activations": 3000}
    assert memory.fullest.op == "forward"


def test_a_limit_is_missed_by_so_much_and_names_what_is_largest(graph: Graph) -> None:
    memory = predict(graph).memory
    assert memory is not None
    assert memory.fit(9000).fits
    missed = memory.fit(8000)
    assert not missed.fits
    assert (missed.spare_bytes, missed.rank, missed.largest) == (-1000, 1, "weights")


def test_the_command_says_whether_it_fits(
    graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = save_graph(graph, tmp_path / "job")
    assert main(["predict", str(job), "--memory-limit", "8kB"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "does not fit in 8.00 kB: rank 1 holds 9.00 kB, 1.00 kB too much" in shown
    assert main(["predict", str(job), "--memory-limit", "10kB", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fit"]["fits"]
    assert [peak["peak_bytes"] for peak in found["memory"]] == [7000, 9000]


def test_without_memory_a_limit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    b = GraphBuilder()
    b.op("forward", b.lane(0), 5, phase=Phase.FORWARD)
    job = save_graph(b.build(), tmp_path / "job")
    assert main(["predict", str(job), "--memory-limit", "8kB"]) == 1
    assert "does not tell what a rank holds" in capsys.readouterr().err
