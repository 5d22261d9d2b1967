"""The engine that the page carries, in Node: equal to the engine at hand, to the nanosecond."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from benchmarks.conditions import Conditions

from paceline.engine import module_file
from paceline.errors import ReplayError
from paceline.graph import Graph, GraphBuilder
from paceline.graph.synthetic import Pipeline, Ring, jumble, pipeline, ring
from paceline.replay import Timeline, replay
from paceline.replay.job import ReplayJob, Shares
from paceline.report.page import conditions, pack

REPLAYED = Path(__file__).parents[2] / "web" / "test" / "replayed.js"

pytestmark = pytest.mark.needs("node", "webassembly")


@dataclass(frozen=True, eq=False)
class Case:
    """A graph, and what its ops share."""

    graph: Graph
    shares: Shares = field(default_factory=Shares)


def replayed(cases: Mapping[str, Case], folder: Path) -> None:
    """Replay all of them in Node; leaves NAME.times or NAME.error in the folder."""
    for name, case in cases.items():
        job = ReplayJob.of(case.graph, case.graph.ops.dur_ns, case.shares)
        (folder / f"{name}.pack").write_bytes(pack(case.graph, conditions(job)))
    subprocess.run(["node", str(REPLAYED), str(module_file()), str(folder)], check=True)


def ours(case: Case) -> Timeline | None:
    shares = case.shares
    try:
        return replay(
            case.graph,
            contention=shares.contention,
            transfers=shares.transfers,
            hosts=shares.hosts,
        )
    except ReplayError:
        return None


def assert_equal(cases: Mapping[str, Case], folder: Path) -> int:
    """How many could be replayed, here and there."""
    replayed(cases, folder)
    count = 0
    for name, case in cases.items():
        if (timeline := ours(case)) is None:
            assert (folder / f"{name}.error").exists(), name
            continue
        times = np.fromfile(folder / f"{name}.times", np.int64).reshape(3, -1)
        columns = (timeline.ready_ns, timeline.start_ns, timeline.end_ns)
        assert all(map(np.array_equal, times, columns)), name
        count += 1
    return count


def test_jobs_replay_in_node_as_here(tmp_path: Path) -> None:
    jobs = {
        "pipeline": Case(pipeline(Pipeline(4, 8, forward_ns=10, backward_ns=20, update_ns=5))),
        "ring": Case(ring(Ring(ranks=4, jitter=0.05))),
    }
    assert assert_equal(jobs, tmp_path) == 2


def test_random_graphs_replay_in_node_as_here_or_are_stuck_in_both(tmp_path: Path) -> None:
    random = {
        f"{seed}": Case(jumble(seed, longest=25, recorded=seed % 4 == 0)) for seed in range(100)
    }
    assert assert_equal(random, tmp_path) > 70


def test_a_lab_replays_in_node_as_here(tmp_path: Path) -> None:
    cases = {}
    for seed in range(100):
        on = Conditions(seed, turns=seed % 2 == 0, shaped=seed % 3 > 0, hosts=seed % 5 > 0)
        graph = on.graph()
        cases[f"{seed}"] = Case(graph, on.shares(graph))
    assert assert_equal(cases, tmp_path) > 50


def test_a_graph_without_links_replays(tmp_path: Path) -> None:
    b = GraphBuilder()
    b.op("alone", b.lane(), 7)
    assert assert_equal({"alone": Case(b.build())}, tmp_path) == 1


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
    subprocess.run(["node", str(REPLAYED), str(module_file()), str(tmp_path)], check=True)
    assert "rite it again" in (tmp_path / "bad.error").read_text()
