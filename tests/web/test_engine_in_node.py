"""The engine that the page carries, in Node: equal to the engine at hand, to the nanosecond."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from paceline.engine import module_file
from paceline.errors import ReplayError
from paceline.graph import Graph, GraphBuilder
from paceline.graph.synthetic import Pipeline, Ring, jumble, pipeline, ring
from paceline.replay import Timeline, replay
from paceline.report.page import pack

REPLAYED = Path(__file__).parents[2] / "web" / "test" / "replayed.js"

pytestmark = pytest.mark.needs("node", "webassembly")


def replayed(graphs: Mapping[str, Graph], folder: Path) -> None:
    """Replay all of them in Node; leaves NAME.times or NAME.error in the folder."""
    for name, graph in graphs.items():
        (folder / f"{name}.pack").write_bytes(pack(graph))
    subprocess.run(["node", str(REPLAYED), str(module_file()), str(folder)], check=True)


def ours(graph: Graph) -> Timeline | None:
    try:
        return replay(graph)
    except ReplayError:
        return None


def assert_equal(graphs: Mapping[str, Graph], folder: Path) -> int:
    """How many could be replayed, here and there."""
    replayed(graphs, folder)
    count = 0
    for name, graph in graphs.items():
        if (timeline := ours(graph)) is None:
            assert (folder / f"{name}.error").exists(), name
            continue
        times = np.fromfile(folder / f"{name}.times", np.int64).reshape(3, -1)
        columns = (timeline.ready_ns, timeline.start_ns, timeline.end_ns)
        assert all(map(np.array_equal, times, columns)), name
        count += 1
    return count


def test_jobs_replay_in_node_as_here(tmp_path: Path) -> None:
    jobs = {
        "pipeline": pipeline(Pipeline(4, 8, forward_ns=10, backward_ns=20, update_ns=5)),
        "ring": ring(Ring(ranks=4, jitter=0.05)),
    }
    assert assert_equal(jobs, tmp_path) == 2


def test_random_graphs_replay_in_node_as_here_or_are_stuck_in_both(tmp_path: Path) -> None:
    random = {f"{seed}": jumble(seed, longest=25, recorded=seed % 4 == 0) for seed in range(100)}
    assert assert_equal(random, tmp_path) > 70


def test_a_graph_without_links_replays(tmp_path: Path) -> None:
    b = GraphBuilder()
    b.op("alone", b.lane(), 7)
    assert assert_equal({"alone": b.build()}, tmp_path) == 1


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
