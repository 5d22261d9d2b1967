"""Full-graph training in four parts: what one bit a number and stale halos bring and cost.

A graph of nearest neighbours of Fashion-MNIST images, pooled to 7 x 7 (features and labels are
real; edges are derived from the features, a tenth of them rewired at random), GCN and GraphSAGE of
three layers, three seeds. Accuracies are measured in one process, which finds what four workers
find to the last bit. Times are those of four workers with links of 100 Mbit/s, half a core each:
predicted for all rows, and measured in the lab for GraphSAGE, beside the prediction, once all rows
are there and where the machine is quiet: three times each way, in turn. `speedup` is the epoch with
fp32 halos that wait over that with one-bit halos that do not (GraphSAGE, the median of the three
where they were measured, else predicted; `speedup_is` says which); `points` how far the accuracy
then lies below, and `points_at_random` where rows are rounded at random, as Sylvie has it. `bound`
is the speedup if halos took no time.
Each row says where an epoch goes: `work_ms` is all processor time of a worker at its share of a
core, `packing_ms` the part of it that rounds rows and restores them, `wire_ms` what a worker's
halos take on its link if nothing else does.

    python benchmarks/accuracy/graph_network.py --json
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import torch

from benchmarks import kept, measure
from benchmarks.accuracy import calibrated, cells, learning, pipeline_lab
from benchmarks.accuracy.learning_lab import Place
from paceline.lab import Lab
from paceline.learn import LearnRun, fashion_mnist, load, round_time
from paceline.learn.graphs import Neighbourhood, Parts, nearest_neighbours, parted, parts_of
from paceline.learn.graphs.network import GraphConvolution, GraphNetwork
from paceline.learn.graphs.torch_rounding import Dice, Rounding
from paceline.learn.graphs.torch_training import GraphTask, train
from paceline.predict import Question

JOB = Path(__file__).parent / "jobs" / "graph_worker.py"
PLACE = Place((0.45,) * 4, (100.0,) * 4)
NODES, EPOCHS, PARTS, HIDDEN = 20000, 120, 4, 64
TURNS = 3
EDGES = Neighbourhood(neighbours=10, rewired=0.1)
Way = tuple[int, bool, int]
"""Bits of a number, whether one bit names two means, and how many epochs apart halos wait."""
FULL, RANDOM, STALE, MEANS = (32, False, 0), (1, False, 0), (1, False, 10), (1, True, 10)
ARMS = tuple(
    (layer, way)
    for layer in (GraphConvolution.SAGE, GraphConvolution.GCN)
    for way in (FULL, MEANS, STALE, RANDOM)
)
"""In the order in which they are trained, each with all seeds."""

Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = learning.parser(__doc__)
    parser.add_argument("--no-lab", dest="lab", action="store_false", help="predict epochs only")
    options = parser.parse_args(arguments)
    seeds = learning.SEEDS[:1] if options.quick else learning.SEEDS
    nodes, epochs = (1000, 15) if options.quick else (NODES, EPOCHS)
    wanted = [(_network(layer, way, seed), nodes, epochs) for layer, way in ARMS for seed in seeds]
    rows = _rows(options, wanted)
    whole = len(rows) == len(wanted) and not options.quick
    lab = _lab(options, nodes) if options.lab and whole else {}
    told = {**summary(rows, lab, len(seeds)), "missing": len(wanted) - len(rows)}
    return measure.report("accuracy/graph_network", told, options, "torch", "pymetis")


def _network(layer: GraphConvolution, way: Way, seed: int) -> GraphNetwork:
    bits, means, stale = way
    return GraphNetwork(layer, hidden=HIDDEN, bits=bits, means=means, stale=stale, seed=seed)


def _way(row: Row) -> Way:
    return row["bits"], row["means"], row["stale"]


def summary(rows: list[Row], lab: dict[str, Any], seeds: int) -> dict[str, Any]:
    """A figure stands where all its seeds do."""
    told = [_arm(rows, layer.value, way) for layer, way in ARMS]
    by = {(r["layer"], *_way(r)): r for r in told if r and len(r["by_seed"]) == seeds}
    full, both, random = (by.get(("sage", *way)) for way in (FULL, MEANS, STALE))
    found = {
        **_times(full, both, lab),
        "points": round(100 * (full["accuracy"] - both["accuracy"]), 2) if full and both else None,
        "points_at_random": (
            round(100 * (full["accuracy"] - random["accuracy"]), 2) if full and random else None
        ),
        "bytes_ratio": full and both and round(full["epoch_bytes"] / both["epoch_bytes"], 2),
        "lab": lab,
        "rows": [row for row in told if row is not None],
    }
    crowded = max((row["load"] for row in rows), default=0.0) > measure.QUIET
    timed = ["bound", *([] if "speedup" in lab else ["speedup", "speedup_is"])]
    return measure.without_times(found, timed) if crowded else found


def _times(full: Row | None, both: Row | None, lab: dict[str, Any]) -> dict[str, Any]:
    predicted = round(full["epoch_ms"] / both["epoch_ms"], 3) if full and both else None
    return {
        "speedup": lab.get("speedup", predicted),
        "speedup_is": "measured" if "speedup" in lab else "predicted",
        "bound": full and round(full["epoch_ms"] / full["work_ms"], 3),
    }


def _arm(rows: list[Row], layer: str, way: Way) -> Row | None:
    mine = [row for row in rows if (row["layer"], *_way(row)) == (layer, *way)]
    if not mine:
        return None
    names = ("accuracy", "epoch_ms", "work_ms", "packing_ms", "wire_ms", "epoch_bytes")
    means = {name: round(statistics.mean(row[name] for row in mine), 4) for name in names}
    by_seed = [row["accuracy"] for row in mine]
    told = dict(zip(("bits", "means", "stale"), way))
    return {"layer": layer, **told, **means, "by_seed": by_seed}


def _rows(options: Any, wanted: list[tuple[GraphNetwork, int, int]]) -> list[Row]:
    makers = {_key(*each): partial(_row, options.data, *each) for each in wanted}
    if options.quick:
        return [make() for make in makers.values()]
    return list(kept.rows("graph", makers, options.budget, fresh=options.again).values())


def _key(how: GraphNetwork, nodes: int, epochs: int) -> str:
    told = {**asdict(how), "layer": how.layer.value}
    return json.dumps({**told, "nodes": nodes, "epochs": epochs}, sort_keys=True)


def _row(folder: Path, how: GraphNetwork, nodes: int, epochs: int) -> Row:
    torch.set_num_threads(1)
    made = train(GraphTask(parts(folder, nodes), how, epochs))
    there = _predicted(made)
    work = sum(w.cpu_s for r in made.rounds for w in r.works) / len(made.rounds) / PARTS
    last = made.rounds[-1].trips
    epoch_bytes = sum(t.size_bytes * len(t.targets) for t in last if not t.after)
    return {
        "layer": how.layer.value, "bits": how.bits, "means": how.means, "stale": how.stale,
        "seed": how.seed,
        "accuracy": statistics.mean(each.accuracy for each in made.judged[-3:]),
        "epoch_ms": 1e3 * there, "work_ms": 1e3 * work / PLACE.cpus[0],
        "packing_ms": 1e3 * _packing_s(parts(folder, nodes), how) / PLACE.cpus[0],
        "wire_ms": 1e3 * epoch_bytes / PARTS / (PLACE.mbit[0] * 1e6 / 8),
        "epoch_bytes": epoch_bytes, "load": round(os.getloadavg()[0], 2),
    }  # fmt: skip


def _packing_s(whole: Parts, how: GraphNetwork) -> float:
    """Processor time of a worker and epoch: all layers but the first send rows there and back."""
    drawn, part = np.random.default_rng(0), whole.each[0]
    rounding = Rounding(how.bits, how.means)
    dice = Dice(drawn)
    rows = [drawn.normal(size=(len(r), how.hidden)).astype(np.float32)
            for r in (*part.sends.values(), *part.takes.values())]  # fmt: skip
    times = []
    for _ in range(5):
        began = time.thread_time()
        for table in rows:
            rounding.restored(rounding.packed(table, dice), how.hidden)
        times.append(time.thread_time() - began)
    return (how.layers - 1) * statistics.median(times)


def _predicted(made: LearnRun) -> float:
    kept = calibrated.now()
    question = Question(machine=calibrated.machine(kept), calibration=kept)
    later = replace(made, rounds=made.rounds[2:])  # the first sends the features, once
    return round_time(later, kept.applied(PLACE.cluster()), question).mean_s


@lru_cache(maxsize=2)
def parts(folder: Path, nodes: int) -> Parts:
    samples = fashion_mnist(folder)[0].some(nodes, 0)
    pooled = samples.inputs.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4))
    graph = nearest_neighbours(replace(samples, inputs=pooled), EDGES)
    return parts_of(graph, parted(graph, PARTS, "metis" if nodes == NODES else ""))


def _lab(options: Any, nodes: int) -> dict[str, Any]:
    """Epochs of GraphSAGE, each way in a lab of its own, in turn."""
    if refused := pipeline_lab.why_not():
        return {"refused": refused}
    if measure.is_crowded():
        return {"refused": f"the load is above {measure.QUIET:g}, so epochs would be too long"}
    rows: list[Row] = []
    for turn in range(TURNS):
        for way in (FULL, MEANS):
            rows.append({"turn": turn, **_epochs(_in_the_lab(options, way, nodes), way)})
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return {**speedups(rows), "rows": rows}


def _epochs(made: LearnRun, way: Way) -> Row:
    ends = [each.ended_s for each in made.rounds]
    measured = (ends[-1] - ends[1]) / (len(ends) - 2)
    return {"bits": way[0], "stale": way[2], "epoch_ms": round(1e3 * measured, 1),
            "predicted_ms": round(1e3 * _predicted(made), 1)}  # fmt: skip


def speedups(rows: Sequence[Row]) -> dict[str, Any]:
    """Of every turn: its fp32 epoch over its one-bit epoch."""
    full, both = ([r["epoch_ms"] for r in rows if r["bits"] == bits] for bits in (32, 1))
    ratios = [round(slow / fast, 3) for slow, fast in zip(full, both)]
    return {"speedup": round(statistics.median(ratios), 3), "speedups": sorted(ratios)}


def _in_the_lab(options: Any, way: Way, nodes: int) -> LearnRun:
    bits, means, stale = way
    how = (str(bits), "means" if means else "random", str(stale))
    with tempfile.TemporaryDirectory() as folder, Lab(PLACE.cluster()) as lab:
        out = Path(folder) / "run"
        told = (str(options.data), str(nodes), "22", *how, str(out))
        lab.run([*cells.FIRST, sys.executable, str(JOB), *told], timeout_s=600, logs=Path(folder))
        (made,) = load(out)
        return made


if __name__ == "__main__":
    main()
