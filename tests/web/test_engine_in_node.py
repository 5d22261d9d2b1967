"""The engine that the page carries, in Node: equal to the engine at hand, to the nanosecond."""

from pathlib import Path

import pytest
from benchmarks.conditions import Conditions
from benchmarks.in_node import Case, compared, in_node

from paceline.graph import GraphBuilder
from paceline.graph.synthetic import Pipeline, Ring, jumble, pipeline, ring
from paceline.report.page import pack

pytestmark = pytest.mark.needs("node", "webassembly")


def all_equal(cases: dict[str, Case], folder: Path) -> int:
    """How many could be replayed; all are as here."""
    found = compared(cases, folder)
    assert [name for name, same in found.items() if not same] == []
    return len(list(folder.glob("*.times")))


def test_jobs_replay_in_node_as_here(tmp_path: Path) -> None:
    jobs = {
        "pipeline": Case(pipeline(Pipeline(4, 8, forward_ns=10, backward_ns=20, update_ns=5))),
        "ring": Case(ring(Ring(ranks=4, jitter=0.05))),
    }
    assert all_equal(jobs, tmp_path) == 2


def test_random_graphs_replay_in_node_as_here_or_are_stuck_in_both(tmp_path: Path) -> None:
    random = {
        f"{seed}": Case(jumble(seed, longest=25, recorded=seed % 4 == 0)) for seed in range(100)
    }
    assert all_equal(random, tmp_path) > 70


def test_a_lab_replays_in_node_as_here(tmp_path: Path) -> None:
    cases = {}
    for seed in range(100):
        on = Conditions(seed, turns=seed % 2 == 0, shaped=seed % 3 > 0, hosts=seed % 5 > 0)
        graph = on.graph()
        cases[f"{seed}"] = Case(graph, on.shares(graph))
    assert all_equal(cases, tmp_path) > 50


def test_a_graph_without_links_replays(tmp_path: Path) -> None:
    b = GraphBuilder()
    b.op("alone", b.lane(), 7)
    assert all_equal({"alone": Case(b.build())}, tmp_path) == 1


@pytest.mark.parametrize("spoil", ["head", "middle", "end"])
def test_a_damaged_file_is_refused_in_words(spoil: str, tmp_path: Path) -> None:
    whole = bytearray(pack(jumble(4)))
    if spoil == "head":
        whole[0] ^= 1
    elif spoil == "middle":
        whole[len(whole) // 2 : len(whole) // 2 + 40] = bytes(40)
    else:
        del whole[-20:]
    (tmp_path / "bad.pack").write_bytes(whole)
    in_node(tmp_path)
    assert "rite it again" in (tmp_path / "bad.error").read_text()
