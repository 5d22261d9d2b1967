"""What the page asks of its engine beyond a replay: levels of detail, slid durations."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.cluster import parse
from paceline.cost import Rates, calls_of, prices
from paceline.engine import module_file, webassembly
from paceline.errors import ReplayError
from paceline.graph import Graph, OpKind
from paceline.graph.synthetic import jumble
from paceline.graph.synthetic.training import training
from paceline.graph.synthetic.training_job import TrainingJob
from paceline.imagine.transformer import Degrees, Training, Transformer, describe
from paceline.predict.classes import step_ns
from paceline.replay import Timeline, replay
from paceline.report.page import coarse, link_prices, pack
from paceline.report.page.coding import WAYS, CodedColumn, Coding, coded
from paceline.report.page.levels import Window, drawn, spans_of
from paceline.report.page.pack import PageData, container
from paceline.wasm.memory import Borrowed

SCRIPTS = Path(__file__).parents[2] / "web" / "test"
ASKED = SCRIPTS / "asked.js"

pytestmark = pytest.mark.needs("node", "webassembly")


def asked(packed: bytes, folder: Path, **questions: Any) -> dict[str, Any]:
    file = folder / "asked.pack"
    file.write_bytes(packed)
    every: dict[str, Any] = {"windows": [], "slid": [], "sampled": [], "told": None}
    every |= questions
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


def test_levels_that_a_file_carries_in_place_of_ops_are_drawn_as_they_are(tmp_path: Path) -> None:
    graph = first_that_runs(recorded=True)
    timeline = replay(graph)
    part = coarse(spans_of(timeline), timeline.step_ns, len(graph) // 2)
    window = (0, timeline.step_ns, part.facts["level_pixels"])
    (found,) = asked(pack(graph, part), tmp_path, windows=[window])["seen"]
    lane, kind, start, lasts, idle, ops = (column.tolist() for column in part.columns.values())
    rows = zip(lane, kind, start, lasts, idle, ops)
    assert found["rows"] == [[a, b, c, c + d, d - e, f] for a, b, c, d, e, f in rows]


def test_durations_are_scaled_as_numpy_rounds(tmp_path: Path) -> None:
    graph = first_that_runs(recorded=True)
    factors = (0.5, 1.0, 1.3)
    slid = [{"factor": factor} for factor in factors]
    steps = asked(pack(graph), tmp_path, slid=slid)["steps"]
    dur = graph.ops.dur_ns
    exact = [replay(graph, prices=np.rint(dur * f).astype(np.int64)).step_ns for f in factors]
    assert steps == exact


def test_samples_are_those_of_the_graph(tmp_path: Path) -> None:
    graph = first_that_runs(recorded=True)
    spread = graph.spread
    assert spread is not None
    found = asked(pack(graph), tmp_path, sampled=list(range(len(graph))))["samples"]
    borders = zip(spread.ptr.tolist(), spread.ptr[1:].tolist())
    assert found == [spread.samples_ns[first:last].tolist() for first, last in borders]
    assert any(found)


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
    priced = PageData({"dur_ns": prices(graph, base, rates).dur_ns})
    slid = [{"factor": 1, "rate": rate, "latency": 1} for rate in clusters]
    steps = asked(pack(graph, part, priced), tmp_path, slid=slid)["steps"]
    assert steps == [replay(graph, cluster).step_ns for cluster in clusters.values()]


def graphs_to_tell_of() -> dict[str, Graph]:
    """Lanes in recorded order, and lanes that choose."""
    return {
        "recorded": first_that_runs(recorded=True),
        "by priority": first_that_runs(recorded=False),
        "training": training(TrainingJob(workers=3, layers=4, steps=3)),
    }


@pytest.mark.parametrize("name", ["recorded", "by priority", "training"])
def test_a_replay_in_the_page_tells_what_its_timeline_tells(name: str, tmp_path: Path) -> None:
    graph = graphs_to_tell_of()[name]
    steps, step = np.unique(graph.ops.step, return_inverse=True)
    ranks, rank = np.unique(graph.lanes.rank, return_inverse=True)
    told = {"step": step.tolist(), "rank": rank.tolist(), "update": [], "period": 1}
    told |= {"ranks": len(ranks), "steps": len(steps)}
    slid = [{"factor": factor} for factor in (1.0, 0.7)]
    found = asked(pack(graph), tmp_path, slid=slid, told=told)["replays"]
    for setting, one in zip(slid, found):
        dur = np.rint(graph.ops.dur_ns * setting["factor"]).astype(np.int64)
        timeline = replay(graph, prices=dur)
        assert one["told"]["stepNs"] == step_ns(timeline)
        assert one["told"]["lastNs"] == timeline.step_ns
        assert one["told"]["parts"] == pytest.approx(parts_of(timeline, step))
        assert one["slack"] == timeline.slack_ns.tolist()
        assert one["path"] == timeline.critical_path.ops.tolist()
        by_start = np.lexsort((timeline.end_ns, timeline.start_ns, graph.ops.lane))
        assert one["order"] == by_start.tolist()


def parts_of(timeline: Timeline, step: np.ndarray) -> dict[str, float]:
    """Of the last step and a mean rank, moment by moment: the definition."""
    ops, ends = timeline.graph.ops, timeline.end_ns
    before = step < step.max()
    window = (int(ends[before].max(initial=0)), timeline.step_ns)
    every = np.unique(np.concatenate([timeline.ready_ns, timeline.start_ns, ends, window]))
    cuts = every[(every >= window[0]) & (every <= window[1])]
    moments, lasts = cuts[:-1], np.diff(cuts)
    moves = (ops.kind >= OpKind.COLLECTIVE) & (ops.kind <= OpKind.COPY)
    found = dict.fromkeys(("compute", "hidden", "exposed"), 0.0)
    for rank in timeline.graph.ranks:

        def at_once(wanted: np.ndarray, begins: np.ndarray, rank: int = rank) -> np.ndarray:
            mine = wanted & (ops.rank == rank)
            goes_on = (begins[mine, None] <= moments) & (moments < ends[mine, None])
            return np.asarray(goes_on.any(0))

        compute = at_once(ops.kind == OpKind.COMPUTE, timeline.start_ns)
        moving = at_once(moves, timeline.start_ns)
        talking = at_once(moves, timeline.ready_ns)
        found["hidden"] += lasts[compute & moving].sum() / len(timeline.graph.ranks)
        found["compute"] += lasts[compute & ~moving].sum() / len(timeline.graph.ranks)
        found["exposed"] += lasts[talking & ~compute].sum() / len(timeline.graph.ranks)
    return found | {"other": window[1] - window[0] - sum(found.values())}


@pytest.mark.needs("wasmtime")
def test_columns_of_any_numbers_come_out_as_they_went_in() -> None:
    random = np.random.default_rng(0)
    columns = {
        "none": np.zeros(0, np.int64),
        "zero": np.zeros(9, np.int32),
        "small": random.integers(-3, 3, 500).astype(np.int32),
        "rising": np.cumsum(random.integers(0, 300, 500)),
        "noise": random.integers(-(2**40), 2**40, 500),
        "ends": np.array([2**63 - 1, -(2**63), 0, -1, 1]),
        "bytes": random.integers(0, 256, 500).astype(np.uint8),
        "parts": random.random(50),
    }
    for name, column in columns.items():
        one = coded(name, column)
        assert np.array_equal(_decoded(one), column), (name, one.coding)


def _decoded(one: CodedColumn) -> np.ndarray:
    """By the module that a page carries, through wasmtime."""
    if one.coding is Coding.PLAIN:
        return np.frombuffer(one.data, one.type)
    core = webassembly()
    assert core is not None
    code = [c for c in Coding if c is not Coding.PLAIN].index(one.coding)
    width = np.dtype(one.type).itemsize
    with Borrowed(core.memory) as borrowed:
        data = borrowed.put(np.frombuffer(one.data, np.uint8))
        out = borrowed.put(np.zeros(one.count, one.type))
        sizes = (len(one.data), code, out, one.count, width)
        assert core.memory.call("unpack_column", data, *sizes)
        return core.memory.read(one.type, out, one.count)


def test_a_page_without_an_engine_reads_every_coding(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    columns = {
        "empty": np.zeros(0, np.int64),
        "small": rng.integers(0, 200, 999).astype(np.uint8),
        "ends": np.array([-(2**31), 2**31 - 1, 0, -1, 2**31 - 1, -(2**31)], np.int32),
        "times": np.cumsum(rng.integers(0, 2**40, 999)),
        "either": rng.integers(-(2**51), 2**51, 999),
    }
    made = [
        CodedColumn(f"{name} {way.value}", column.dtype.name, len(column), way, code(values))
        for name, column in columns.items()
        for values in [column.astype(np.int64)]
        for way, code in WAYS.items()
    ]
    made.append(coded("real", np.array([0.1, -1e300])))
    (tmp_path / "some.pack").write_bytes(container(made, {}))
    command = ["node", str(SCRIPTS / "decoded.js"), str(tmp_path / "some.pack")]
    found = json.loads(subprocess.check_output(command))
    assert found.pop("real") == [0.1, -1e300]
    assert len(found) == len(columns) * len(WAYS)
    for name, numbers in found.items():
        assert numbers == columns[name.split()[0]].tolist(), name
