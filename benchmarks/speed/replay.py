"""How fast graphs are replayed: whole, on shared cores, after an edit, drawn many times, folded.

All on dPRO's shape of training over rings (`paceline.graph.synthetic.ring`), durations
with 5 % jitter. A replay is `replay(graph)`: from a graph in memory to a timeline's columns. Its
program is compiled beforehand, as it is for the second replay of any graph; what compiling costs
once is a field of its own. Beside it runs a plain replay around one heap
(`benchmarks/plain_replay.py`), in turn; its lists are made beforehand too.
"""

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.plain_replay import Plain

from benchmarks import measure
from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.machine import Machine
from paceline.cluster.tcp import over_tcp
from paceline.engine import native, webassembly
from paceline.graph import Discipline, Graph, OpKind, Spread, load_graph, select
from paceline.graph.replicas import with_replicas
from paceline.graph.synthetic import Ring, folded_ring, ring
from paceline.predict import Candidates, Question
from paceline.predict.predicting import typical
from paceline.replay import Engine, Live, SharedHosts, Timeline, replay, replay_many
from paceline.replay.program import program
from paceline.strategies import strategy

JOB = Ring(ranks=32, jitter=0.05)  # 211,200 ops
LARGE = replace(JOB, ranks=223, discipline=Discipline.PRIORITY)  # 10 million ops
RECORDING = measure.RESULTS / "recordings" / "mlp"
RESIDENT = Path(__file__).parent / "jobs" / "resident.py"
FOLDED_RANKS = 16_384
SAMPLES = 10  # of each duration
SHARED_CORES = Machine(2.0, crowded_product=1.04, together_ns=1e6)
"""With what `paceline measure --lab` measures of crowded cores."""


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = measure.parser(__doc__ or "").parse_args(arguments)
    fixed, priority = ring(JOB), ring(replace(JOB, discipline=Discipline.PRIORITY))
    figures = {
        "timed": "replay(graph) with its program compiled beforehand; medians of interleaved runs",
        "ops": len(fixed),
        **compiling(fixed, priority),
        **whole(fixed, priority, rounds=7 if options.quick else 31),
        **webassembly_share("wasm", fixed, rounds=7 if options.quick else 31),
        **webassembly_share("wasm_priority", priority, rounds=3 if options.quick else 9),
        **beside_plain({"fixed": fixed, "priority": priority}, rounds=3 if options.quick else 15),
        **cores(fixed, rounds=1 if options.quick else 3),
        **candidates(count=50 if options.quick else 200),
        **memory(fixed, priority),
        **resident(ranks=100 if options.quick else LARGE.ranks),
        **edits(fixed, count=100 if options.quick else 400),
        **priority_edits(priority, count=40 if options.quick else 200),
        **draws(fixed, count=100 if options.quick else 1000),
        **folded(rounds=3 if options.quick else 7),
        **({} if options.quick else large()),
    }
    return measure.report("speed/replay", figures, options)


def compiling(fixed: Graph, priority: Graph) -> dict[str, float]:
    """The cost of the first replay that later ones do not have."""
    seconds = {"fixed": timed(lambda: program(fixed)), "priority": timed(lambda: program(priority))}
    return {f"compile_{name}_ms": 1e3 * value for name, value in seconds.items()}


def whole(fixed: Graph, priority: Graph, rounds: int) -> dict[str, Any]:
    runs: dict[str, Callable[[], Timeline]] = {
        "fixed": lambda: replay(fixed),
        "priority": lambda: replay(priority),
    }
    times = measure.interleave(runs, rounds)
    slow = {"reference": lambda: replay(fixed, engine=Engine.REFERENCE)}
    times |= measure.interleave(slow, max(3, rounds // 6))
    return speeds(times, len(fixed))


def speeds(times: dict[str, dict[str, list[float]]], ops: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, samples in times.items():
        wall = measure.spread(samples["wall"])
        found[f"{name}_ops_per_s"] = ops / wall["median"]
        found[f"{name}_ops_per_cpu_s"] = ops / statistics.median(samples["cpu"])
        found[f"{name}_s"] = wall
    return found


def webassembly_share(name: str, graph: Graph, rounds: int) -> dict[str, Any]:
    """The same by WebAssembly through wasmtime, in turn with the native engine: its share of the
    native speed, columns included."""
    if webassembly() is None:
        return {f"{name}_share": None, f"{name}_lacks": "make wasm, and the package wasmtime"}
    engines = {"native": Engine.NATIVE, "wasm": Engine.WEBASSEMBLY}
    one, other = (replay(graph, engine=engine) for engine in engines.values())
    if not all(np.array_equal(a, b) for a, b in zip(times_of(one), times_of(other))):
        raise SystemExit("WebAssembly differs from the native engine")
    runs = {who: partial(replay, graph, engine=engine) for who, engine in engines.items()}
    times = measure.interleave(runs, rounds)
    wall = {who: measure.spread(samples["wall"]) for who, samples in times.items()}
    share = wall["native"]["median"] / wall["wasm"]["median"]
    return {f"{name}_share": share, f"{name}_s": wall["wasm"], f"{name}_native_s": wall["native"]}


def times_of(timeline: Timeline) -> tuple[Any, ...]:
    return timeline.ready_ns, timeline.start_ns, timeline.end_ns


def beside_plain(graphs: dict[str, Graph], rounds: int) -> dict[str, Any]:
    """How many times as fast as the plain replay, by wall and by CPU time."""
    plain = {name: Plain.of(graph) for name, graph in graphs.items()}
    found: dict[str, Any] = {}
    for name, graph in graphs.items():
        if plain[name].step_ns() != replay(graph).step_ns:
            raise SystemExit("the plain replay's step differs")
        runs = {"ours": partial(replay, graph), "plain": plain[name].step_ns}
        times = measure.interleave(runs, rounds)
        ours, theirs = (times[who] for who in runs)
        found |= {
            f"{name}_vs_plain": faster(ours["wall"], theirs["wall"]),
            f"{name}_vs_plain_cpu": faster(ours["cpu"], theirs["cpu"]),
            f"{name}_plain_ops_per_s": len(graph) / statistics.median(theirs["wall"]),
            f"{name}_plain_s": measure.spread(theirs["wall"]),
        }
    return found


def cores(graph: Graph, rounds: int) -> dict[str, Any]:
    """All ranks on one machine with a core for every two, beside the same in plain Python; and on
    machines of four ranks and two cores, as in a lab. A send takes a quarter of a core, and waits a
    tenth of its length for its turn."""
    sends, dur_ns = graph.ops.kind == OpKind.TRANSFER, graph.ops.dur_ns
    takes = {"cpu_ns": np.where(sends, dur_ns // 4, 0), "turn_ns": np.where(sends, dur_ns // 10, 0)}
    one = SharedHosts.one_machine(JOB.ranks, JOB.ranks / 2, **takes)
    labs = SharedHosts(tuple(np.arange(JOB.ranks) // 4), (2.0,) * (JOB.ranks // 4), **takes)
    ours, twin = (
        replay(graph, hosts=one, engine=engine) for engine in (Engine.NATIVE, Engine.REFERENCE)
    )
    if not np.array_equal(ours.end_ns, twin.end_ns):
        raise SystemExit("native differs from its twin on shared cores")
    runs = {
        "cores": partial(replay, graph, hosts=one),
        "cores_apart": partial(replay, graph, hosts=labs),
        "cores_reference": partial(replay, graph, hosts=one, engine=Engine.REFERENCE),
    }
    times = measure.interleave(runs, rounds, warmup=0)
    found: dict[str, Any] = {
        "cores_vs_reference": faster(times["cores"]["wall"], times["cores_reference"]["wall"]),
        "cores_vs_reference_cpu": faster(times["cores"]["cpu"], times["cores_reference"]["cpu"]),
    }
    return found | speeds(times, len(graph))


def faster(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(theirs) / statistics.median(ours)


def candidates(count: int) -> dict[str, Any]:
    """The kept recording of an MLP, on four workers in the lab's conditions: what the exact step
    time of one change takes, all that depends on the change included."""
    job = with_replicas(typical(load_graph(RECORDING), elsewhere=True), 4)
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(4))
    known = Candidates(
        job, over_tcp(Cluster(hosts, Link.both_ways(25e6))), Question(machine=SHARED_CORES)
    )
    plans = [[strategy("buckets", size_bytes=((1 + i % 12) << 20) + i)] for i in range(count)]
    known.step_ns(plans[0])
    wall, cpu = [], []
    for plan in plans:
        begin, began = time.perf_counter(), time.process_time()
        known.step_ns(plan)
        wall.append(1e3 * (time.perf_counter() - begin))
        cpu.append(1e3 * (time.process_time() - began))
    return {
        "candidate_ms": statistics.median(wall),
        "candidate_cpu_ms": statistics.median(cpu),
        "candidate_wall_ms": measure.spread(wall),
    }


def memory(fixed: Graph, priority: Graph) -> dict[str, float]:
    """Bytes an op: the graph's own, and what a replay holds beyond it (program and columns)."""
    columns = [*vars(fixed.ops).values(), *vars(fixed.deps).values()]
    return {
        "graph_bytes_per_op": sum(column.nbytes for column in columns) / len(fixed),
        "bytes_per_op": max(working_bytes(g) / len(g) for g in (fixed, priority)),
    }


def working_bytes(graph: Graph) -> int:
    """The program, the timeline's columns, and the engine's scratch: 8 bytes an op in a pull (ends
    by position), 4 in events (predecessors still missing)."""
    columns = vars(replay(graph).columns).values()
    scratch = 8 if program(graph).by_pull else 4
    held = sum(column.nbytes for column in columns if column is not None)
    return program(graph).bytes + held + scratch * len(graph)


def resident(ranks: int) -> dict[str, Any]:
    """The same as the kernel counts it, in a fresh process."""
    command = [sys.executable, str(RESIDENT), str(ranks)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def edits(graph: Graph, count: int) -> dict[str, Any]:
    """One random tensor's transfers resized on all ranks, up to the exact new step time."""
    live, random = Live(graph), np.random.default_rng(0)
    tensors = [select(graph, f"tensor=tensor {i},kind=transfer") for i in range(JOB.tensors)]
    seconds = []
    for turn in range(count):
        resize = partial(live.scale, tensors[random.integers(JOB.tensors)], random.uniform(0.5, 2))
        seconds.append(timed(resize))
        if turn % 50 == 0 and live.step_ns != replay(graph, prices=live.dur_ns).step_ns:
            raise SystemExit("incremental replay differs from a full one")
        live.undo()
    spread = measure.spread(seconds)
    return {
        "edit_ms_median": 1e3 * spread["median"],
        "edit_s": spread,
        **removals(live, count // 4, random),
    }


def priority_edits(graph: Graph, count: int) -> dict[str, Any]:
    """Edits where lanes choose: of one random tensor's transfers on all ranks, and of one random
    op; each up to the exact new step time, in turn with a full replay of the edited graph.

    `revisited` is the share of ops that the edit replayed, `changed` the share that then run at
    other times than before (which no exact method could have left out), both means.
    """
    live, random = Live(graph), np.random.default_rng(0)
    before = live.timeline()
    tensors = [select(graph, f"tensor=tensor {i},kind=transfer") for i in range(JOB.tensors)]
    choices: dict[str, Callable[[], Any]] = {
        "priority_edit": lambda: tensors[random.integers(JOB.tensors)],
        "priority_op_edit": lambda: [int(random.integers(len(graph)))],
    }
    found: dict[str, Any] = {"priority_live_bytes_per_op": live.bytes / len(graph)}
    full = []
    for name, choose in choices.items():
        seconds, revisited, changed = [], [], []
        for _ in range(count):
            seconds.append(timed(partial(live.scale, choose(), random.uniform(0.5, 2))))
            revisited.append(live.revisited / len(graph))
            full.append(timed(lambda: replay(graph, prices=live.dur_ns)))
            changed.append(share_changed(before, live.timeline()))
            live.undo()
        spread = measure.spread(seconds)
        found |= {
            f"{name}_ms_median": 1e3 * spread["median"],
            f"{name}_revisited": statistics.mean(revisited),
            f"{name}_changed": statistics.mean(changed),
            f"{name}_s": spread,
        }
    return found | {"priority_full_ms_median": 1e3 * statistics.median(full)}


def share_changed(before: Timeline, after: Timeline) -> float:
    same = (before.start_ns == after.start_ns) & (before.end_ns == after.end_ns)
    return 1 - float(same.mean())


def removals(live: Live, count: int, random: np.random.Generator) -> dict[str, Any]:
    """One random op taken out, up to the exact new step time."""
    seconds = []
    for _ in range(count):
        seconds.append(timed(partial(live.remove, [int(random.integers(len(live.graph)))])))
        live.undo()
    spread = measure.spread(seconds)
    return {"removal_ms_median": 1e3 * spread["median"], "removal_s": spread}


def draws(graph: Graph, count: int) -> dict[str, Any]:
    noise = np.random.default_rng(1).normal(1, 0.05, (len(graph), SAMPLES)).clip(0.5)
    samples = np.rint(graph.ops.dur_ns[:, None] * noise).astype(np.int64)
    ptr = np.arange(len(graph) + 1, dtype=np.int64) * SAMPLES
    varied = replace(graph, spread=Spread(ptr, samples.ravel()))
    seconds = timed(lambda: replay_many(varied, count, threads=2))
    return {"draws": count, "draws_threads": 2, "draws_s": seconds * 1000 / count}


def folded(rounds: int) -> dict[str, Any]:
    """Building the folded graph, compiling it, and replaying it."""
    job = Ring(ranks=FOLDED_RANKS)
    spread = measure.spread(
        [timed(lambda: replay(folded_ring(job)).step_ns) for _ in range(rounds)]
    )
    return {"folded_ranks": FOLDED_RANKS, "folded_s": spread["median"], "folded_runs_s": spread}


def large() -> dict[str, Any]:
    graph = ring(LARGE)
    compile_s = timed(lambda: program(graph))
    samples = measure.interleave({"large": lambda: replay(graph)}, 5)["large"]
    spread = measure.spread(samples["wall"])
    return {
        "large_ops": len(graph),
        "compile_priority_10m_s": compile_s,
        "priority_10m_ops_per_s": len(graph) / spread["median"],
        "priority_10m_ops_per_cpu_s": len(graph) / statistics.median(samples["cpu"]),
        "priority_10m_s": spread,
    }


def timed(run: Callable[[], object]) -> float:
    gc.collect()
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


if __name__ == "__main__":
    if native() is None:
        raise SystemExit("this benchmark measures the native core, which is not built")
    main()
