"""What the page asks of its engine beyond a replay: levels of detail, slid durations."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.cluster import parse
from paceline.cost import Rates, calls_of, prices
from paceline.engine import module_file
from paceline.errors import ReplayError
from paceline.graph import Graph
from paceline.graph.synthetic import jumble
from paceline.imagine.transformer import Degrees, Training, Transformer, describe
from paceline.replay import replay
from paceline.report.page import link_prices, pack
from paceline.report.page.levels import Window, drawn, spans_of
from paceline.report.page.pack import Part

ASKED = Path(__file__).parents[2] / "web" / "test" / "asked.js"

pytestmark = pytest.mark.needs("node", "webassembly")


def asked(packed: bytes, folder: Path, **questions: Any) -> dict[str, Any]:
    file = folder / "asked.pack"
    file.write_bytes(packed)
    every = {"windows": [], "slid": []} | questions
    command = ["node", str(ASKED), str(module_file()), str(file), json.dumps(every)]
    found: dict[str, Any] = json.loads(subprocess.check_output(command))
    return found


def first_that_runs(*, recorded: bool) -> Graph:
    """Of random graphs of some length."""
    for seed in range(100):
        graph = jumble(seed, longest=150, recorded=recorded)
        if len(graph) < 40:
            continue
        try:
            replay(graph)
        except ReplayError:
            continue
        return graph
    raise AssertionError("no such graph")


@pytest.mark.parametrize("recorded", [False, True])
def test_the_page_draws_what_its_definition_draws(recorded: bool, tmp_path: Path) -> None:
    graph = first_that_runs(recorded=recorded)
    timeline = replay(graph)
    spans, step = spans_of(timeline), timeline.step_ns
    windows = [(0, step, 7), (0, step, 1000), (step // 3, step // 2, 5)]
    seen = asked(pack(graph), tmp_path, windows=windows)["seen"]
    for window, found in zip(windows, seen):
        exact = drawn(spans, Window(*window), reference=True)
        columns = [column.tolist() for name, column in vars(exact).items() if name != "span"]
        assert [list(row) for row in zip(*columns)] == found["rows"]
    assert sum(seen[0]["sums"]) == int((spans.end_ns - spans.start_ns).sum())


def test_durations_are_scaled_as_numpy_rounds(tmp_path: Path) -> None:
    graph = first_that_runs(recorded=True)
    factors = (0.5, 1.0, 1.3)
    slid = [{"factor": factor} for factor in factors]
    steps = asked(pack(graph), tmp_path, slid=slid)["steps"]
    dur = graph.ops.dur_ns
    exact = [replay(graph, prices=np.rint(dur * f).astype(np.int64)).step_ns for f in factors]
    assert steps == exact


def test_a_slid_link_gives_the_step_of_the_slid_cluster(tmp_path: Path) -> None:
    model = Transformer(4, 64, 4, 32, vocab=128)
    graph = describe(model, Degrees(data=4), Training(16)).graph
    clusters = {
        rate: parse(f"{{hosts: {{count: 4, device: v100}}, link: {{rate: {rate}Gbps}}}}")
        for rate in (1, 4)
    }
    base, rates = clusters[1], Rates()
    calls = calls_of(graph, base, rates.library_of(base))
    part = link_prices(graph, base, rates, calls)
    priced = Part({"dur_ns": prices(graph, base, rates).dur_ns})
    slid = [{"factor": 1, "rate": rate, "latency": 1} for rate in clusters]
    steps = asked(pack(graph, part, priced), tmp_path, slid=slid)["steps"]
    assert steps == [replay(graph, cluster).step_ns for cluster in clusters.values()]
