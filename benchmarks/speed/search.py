"""How long a search takes, how many candidates it replays a second, how far from the best it is.

Recorded jobs (an MLP with large layers, ResNet-20, a transformer) on 2 and 4 workers at 500 Mbit/s:
the guided search over all exact strategies; and over a space that is small enough to try every plan
of it, the guided, evolutionary and black-box searchers beside the exhaustive one. Jobs of 64 and
1,024 ranks are drawn, 12 layers at 10 Gbit/s. Two Dask or Ray workers are timed against one on the
same plans, workers begun and warm; so are two plain processes, which share nothing but the machine.
`..._speedup` is of a short search (the MLP, some thousand plans, about a second on one worker), of
which what each worker makes for itself and the parts' ways there and back are a large share;
`..._long_speedup` of one that is worth spreading (the transformer on 4 workers, some 5,000 plans of
thirteen strategies, about ten seconds on one worker). `..._over_here` sets two workers beside this
process alone. Rows say how much processor time the
search took: where wall time is far beyond it, the machine was crowded. Over the small space,
`together_per_cpu_s` is how many candidates are scored in a second of it, `alone_per_cpu_s` how many
where each is replayed by itself, and `bound_per_cpu_s` how many the native engine alone replays,
with their graphs made, priced and compiled beforehand.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from benchmarks.clusters import CLUSTERS, Workers, there

from benchmarks import measure
from paceline.cluster import Cluster, Host, Link
from paceline.cluster.files import device
from paceline.graph import Graph, load_graph
from paceline.graph.condense import Grain
from paceline.graph.replicas import with_replicas
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.predict import Candidates, Question
from paceline.predict.predicting import typical
from paceline.replay.program import program
from paceline.search import Found, Goal, search
from paceline.search.judge import Judge
from paceline.search.score import Score
from paceline.search.scoring import scoring
from paceline.search.space import Plan, space_of
from paceline.strategies import Effect

RECORDED = measure.RESULTS / "strategies"
FEW = ("bf16", "buckets", "overlap_update", "partition", "priority")
SMALL = Goal(allow=Effect.LOSSY, strategies=FEW, budget_s=120)
WIDE = replace(SMALL, strategies=(*FEW, "fp16", "int8", "topk", "zero1"))
MORE = ("compiled", "early_update", "fused_optimizer", "hierarchical")
LONG = replace(WIDE, strategies=(*(WIDE.strategies or ()), *MORE))
PLANS, WARM, REPLAYED = 6000, 300, 100
BEGUN_S = 3.0


@dataclass(frozen=True)
class Job:
    name: str
    graph: Graph
    cluster: Cluster


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = measure.parser(__doc__ or "").parse_args(arguments)
    jobs = list(islice(recorded(), 2 if options.quick else None))
    rows = [row(job) for job in jobs]
    figures: dict[str, Any] = {"rows": rows}
    figures["seconds"] = max(each["seconds"] for each in rows)
    figures["candidates_per_s"] = min(each["candidates_per_s"] for each in rows)
    figures["gap_to_exhaustive"] = max(each["gaps"]["guided"] for each in rows)
    for ranks in (64,) if options.quick else (64, 1024):
        found = search(*drawn(ranks), Question(), Goal(budget_s=300))
        figures[f"seconds_{ranks}"] = found.seconds
        figures[f"gain_{ranks}"] = found.unchanged.batch_ns / found.best.batch_ns
    for name, workers in CLUSTERS.items():
        asked = there(name) and not options.quick
        for kind, job, goal in ((name, jobs[0], WIDE), (f"{name}_long", jobs[-1], LONG)):
            told = spread(job, workers, goal) if asked else (None, None)
            figures |= zip((f"{kind}_speedup", f"{kind}_over_here"), told)
    return measure.report("speed/search", figures, options, "optuna", "distributed", "ray")


def recorded() -> Iterator[Job]:
    """As recorded with 2 workers, and the typical step of it with 4."""
    for name in ("mlp", "resnet20", "transformer"):
        graph = load_graph(RECORDED / name)
        yield Job(f"{name}, 2 workers", graph, lan(2, 62.5e6))
        more = with_replicas(typical(graph, Grain.OP, elsewhere=True), 4)
        yield Job(f"{name}, 4 workers", more, lan(4, 62.5e6))


def drawn(ranks: int) -> tuple[Graph, Cluster]:
    job = TrainingJob(Parallel.DDP, workers=ranks, layers=12, steps=1)
    return training(job), lan(ranks, 1.25e9)


def lan(hosts: int, bytes_per_s: float) -> Cluster:
    core = device("epyc-2c")
    return Cluster(tuple(Host(f"h{i}", core) for i in range(hosts)), Link.both_ways(bytes_per_s))


def row(job: Job) -> dict[str, Any]:
    cpu = time.process_time()
    found = found_by("guided", job, Goal(budget_s=120))
    cpu = time.process_time() - cpu
    return {
        "job": job.name,
        "seconds": found.seconds,
        "cpu_s": cpu,
        "tried": found.tried,
        "candidates_per_s": found.tried / found.seconds,
        "candidates_per_cpu_s": found.tried / cpu,
        **rates(job),
        "gain": found.unchanged.batch_ns / found.best.batch_ns,
        "plan": [str(each) for each in found.best.plan],
        **compared(job),
    }


def compared(job: Job) -> dict[str, Any]:
    """On the small space: by how much each searcher's plan is slower than the best of all."""
    best = found_by("exhaustive", job, SMALL)
    others = ["guided", "evolutionary", *(["optuna"] if find_spec("optuna") else [])]
    found = {name: found_by(name, job, replace(SMALL, budget_s=30)) for name in others}
    return {
        "exhaustive_tried": best.tried,
        "exhaustive_seconds": best.seconds,
        "exhaustive_per_s": best.tried / best.seconds,
        "gaps": {n: f.best.batch_ns / best.best.batch_ns - 1 for n, f in found.items()},
        "tried_by": {name: each.tried for name, each in found.items()},
    }


def found_by(searcher: str, job: Job, goal: Goal) -> Found:
    return search(job.graph, job.cluster, Question(), goal, searcher)


def rates(job: Job) -> dict[str, float]:
    """Candidates of the small space for each second of processor time: scored one by one, scored
    together, and replayed by the engine alone."""
    asked = candidates(job)
    plans = list(space_of(asked, SMALL, live_only=True).plans())
    alone, many = Judge(replace(asked)), Judge(replace(asked))
    ways = {
        "alone_per_cpu_s": lambda: [alone.score(plan) for plan in plans],
        "together_per_cpu_s": lambda: list(many.scores(plans)),
    }
    for judge in (alone, many):
        judge.candidates.make_ready()
        judge.score(())
    cpu = {name: cpu_s(way) for name, way in ways.items()}
    placed = [asked.placed(plan) for plan in plans[:REPLAYED] if taken(alone, plan)]
    runs = [(program(at.graph), at.graph, at.prices.dur_ns) for at in placed]
    bound = cpu_s(lambda: [engine(*run) for run in runs for _ in range(10)]) / 10 / len(runs)
    return {name: len(plans) / each for name, each in cpu.items()} | {"bound_per_cpu_s": 1 / bound}


def taken(judge: Judge, plan: Plan) -> bool:
    return isinstance(judge.score(plan), Score)


def engine(compiled: Any, graph: Graph, dur_ns: Any) -> Any:
    if compiled.by_pull:
        return compiled.pull(dur_ns)
    return compiled.events(dur_ns, np.ascontiguousarray(graph.ops.priority), None)


def cpu_s(work: Callable[[], Any]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def candidates(job: Job) -> Candidates:
    return Candidates(job.graph, job.cluster, Question(), coarse=True, memory=False)


def spread(job: Job, cluster: Workers, goal: Goal) -> tuple[float, float]:
    """Two workers against one, and against this process, over the same plans."""
    asked = candidates(job)
    space = space_of(asked, goal, live_only=True)
    plans = list(islice(space.plans(), PLANS))
    alone, found = timed("", asked, plans)
    took = []
    for workers in (1, 2):
        with cluster(workers) as place:
            seconds, other = timed(place, asked, plans)
        assert other == found, "other workers found other scores"
        took.append(seconds)
    return took[0] / took[1], alone / took[1]


def timed(place: str, asked: Candidates, plans: Sequence[Plan]) -> tuple[float, dict[Plan, Any]]:
    """Seconds for all plans but the first, with which workers begin."""
    with scoring(place, Judge(replace(asked))) as scores:
        found, begin = dict(scores(plans[:WARM])), time.perf_counter()
        while place and time.perf_counter() - begin < BEGUN_S:  # until every worker has begun
            found = dict(scores(plans[:WARM]))
        begin = time.perf_counter()
        found |= scores(plans[WARM:])
        return time.perf_counter() - begin, found


if __name__ == "__main__":
    main()
