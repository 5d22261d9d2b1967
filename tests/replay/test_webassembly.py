"""WebAssembly through wasmtime equals the engine at hand, with the same errors."""

import subprocess
import sys

import numpy as np
import pytest
from benchmarks.conditions import Conditions

from paceline.cluster import parse
from paceline.engine import webassembly
from paceline.errors import ReplayError
from paceline.graph import Graph
from paceline.graph.synthetic import Ring, jumble, ring
from paceline.imagine.transformer import Degrees, Training, Transformer, describe
from paceline.replay import Engine, NetworkModel, Reason, Timeline, Transfers, replay
from paceline.replay.job import Shares
from paceline.replay.paths import critical_path_reference
from paceline.replay.slack import replayed, slack_reference

pytestmark = pytest.mark.needs("webassembly", "wasmtime")


def by(engine: Engine | None, graph: Graph, shares: Shares | None = None) -> Timeline | str:
    shares = shares or Shares()
    try:
        return replay(
            graph,
            contention=shares.contention,
            transfers=shares.transfers,
            hosts=shares.hosts,
            engine=engine,
        )
    except ReplayError as error:
        return str(error)


def equal(graph: Graph, shares: Shares | None = None) -> bool:
    """Whether it runs; timelines and errors must be alike."""
    one, other = by(None, graph, shares), by(Engine.WEBASSEMBLY, graph, shares)
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return False
    for column in ("ready_ns", "start_ns", "end_ns", "previous"):
        assert np.array_equal(getattr(one, column), getattr(other, column)), column
    assert np.array_equal(one.columns.drained, other.columns.drained)
    return True


def test_random_graphs_are_replayed_alike() -> None:
    graphs = (jumble(seed, longest=25, recorded=seed % 4 == 0) for seed in range(300))
    assert sum(map(equal, graphs)) > 200


def test_slack_and_the_critical_path_are_as_specified() -> None:
    core = webassembly()
    assert core is not None
    for seed in range(100):
        timeline = by(None, jumble(seed))
        if isinstance(timeline, str):
            continue
        assert np.array_equal(core.slack(*replayed(timeline)), slack_reference(timeline))
        ops, reasons = core.critical_path(*replayed(timeline), timeline.ready_ns)
        path = critical_path_reference(timeline)
        assert np.array_equal(ops[::-1], path.ops)
        assert tuple(tuple(Reason)[number] for number in reasons[::-1]) == path.reasons


def test_shared_cores_shaped_links_and_contention_are_replayed_alike() -> None:
    run = 0
    for seed in range(200):
        on = Conditions(seed, turns=seed % 2 == 0, shaped=seed % 3 > 0, hosts=seed % 5 > 0)
        graph = on.graph()
        run += equal(graph, on.shares(graph))
    assert run > 100


def test_flows_on_shared_links_are_replayed_alike() -> None:
    job = describe(Transformer(8, 64, 4, 32, vocab=128), Degrees(pipeline=2), Training(16))
    cluster = parse("{hosts: {count: 2, device: v100}, link: {rate: 1Gbps}}")
    one, other = (
        replay(job, cluster, network=NetworkModel.FLOWS, engine=engine)
        for engine in (None, Engine.WEBASSEMBLY)
    )
    assert np.array_equal(one.end_ns, other.end_ns)


def test_transfers_that_only_python_knows_are_refused_in_words() -> None:
    graph = jumble(4)
    transfers = Transfers(np.zeros(len(graph), np.bool_), lambda: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(ReplayError, match="WebAssembly cannot call"):
        replay(graph, transfers=transfers, engine=Engine.WEBASSEMBLY)


def test_memory_of_programs_that_are_gone_is_given_back() -> None:
    core = webassembly()
    assert core is not None
    sizes = []
    for seed in range(60):
        graph = ring(Ring(ranks=4, jitter=0.05, seed=seed))
        replay(graph, engine=Engine.WEBASSEMBLY)
        del graph
        sizes.append(core.memory.size_bytes)
    assert sizes[-1] == sizes[9]


def test_it_is_used_and_named_where_no_native_core_is() -> None:
    code = (
        "from paceline.engine import engine_name; from paceline.graph.synthetic import jumble;"
        "from paceline.replay import replay, replay_many;"
        "t = replay(jumble(4)); path = t.critical_path.ops.sum();"
        "print(engine_name(), t.step_ns, t.slack_ns.sum(), len(t.order), path)"
    )
    shown = {}
    for engine in ("", "webassembly", "python"):
        shown[engine] = subprocess.run(
            [sys.executable, "-c", code],
            env={"PACELINE_ENGINE": engine},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
    assert shown["webassembly"][0] == "WebAssembly"
    assert shown["python"][:2] == ["plain", "Python"]
    assert shown[""][-4:] == shown["webassembly"][-4:] == shown["python"][-4:]
