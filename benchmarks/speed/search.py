"""How long a search takes, how many candidates it replays a second, how far from the best it is.

Recorded jobs (an MLP with large layers, ResNet-20, a transformer) on 2 and 4 workers at 500 Mbit/s:
the guided search over all exact strategies; and over a space that is small enough to try every plan
of it, the guided, evolutionary and black-box searchers beside the exhaustive one. Jobs of 64 and
1,024 ranks are drawn, 12 layers at 10 Gbit/s. Two Dask or Ray workers are timed on the same plans
as this process alone, workers begun and warm. Rows say how much processor time the search took:
where wall time is far beyond it, the machine was crowded.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from paceline.cluster import Cluster, Host, Link
from paceline.cluster.files import device
from paceline.graph import Graph, load_graph
from paceline.graph.condense import Grain
from paceline.graph.replicas import with_replicas
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.predict import Candidates, Question
from paceline.predict.predicting import typical
from paceline.search import Found, Goal, search
from paceline.search.score import Judge
from paceline.search.scoring import scoring
from paceline.search.space import space_of
from paceline.strategies import Effect

RECORDED = measure.RESULTS / "strategies"
SMALL = Goal(
    allow=Effect.LOSSY,
    strategies=("bf16", "buckets", "overlap_update", "partition", "priority"),
    budget_s=120,
)
PLANS = 1500


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
    for name in ("dask", "ray"):
        figures[f"{name}_speedup"] = None if options.quick else speedup(jobs[0], name)
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


def speedup(job: Job, name: str) -> float | None:
    """Times as fast as this process alone, over the same plans; None without the package."""
    if not find_spec({"dask": "distributed"}.get(name, name)):
        return None
    asked = Candidates(job.graph, job.cluster, Question(), coarse=True, memory=False)
    space = space_of(asked.remembering.source(Grain.OP), SMALL, live_only=True)
    plans = list(islice(space.plans(), PLANS))
    warm, timed = plans[:200], plans[200:]
    with scoring("", Judge(replace(asked))) as here, scoring(f"{name}://", Judge(asked)) as there:
        alone, spread = ({}, {})
        for scores, found in ((here, alone), (there, spread)):
            dict(scores(warm))
            begin = time.perf_counter()
            found.update(scores(timed))
            found["seconds"] = time.perf_counter() - begin
    took = alone.pop("seconds"), spread.pop("seconds")
    assert alone == spread, "other workers found other scores"
    return float(took[0] / took[1])


if __name__ == "__main__":
    main()
