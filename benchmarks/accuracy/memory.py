"""Predicted against measured peak memory, by category: plain, and under each memory strategy.

Each model is recorded once, plain, with two gloo workers; every prediction starts from there. Truth
is taken in other processes by `jobs/memory.py`: every block that torch's allocator gives out from
before the model is built, its sum over time, and what is held at marks between a step's parts. It
asks neither autograd nor Paceline. Not counted on either side is what gloo and oneDNN allocate by
themselves.

`memory_error` is the worst error of a peak; `category_error` the worst of a category that makes up
a hundredth of the peak or more. Activations are those held when the forward pass has ended.

Each model's rows are kept as they come (`kept`); `--budget MINUTES` begins none behind that.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import kept, measure
from benchmarks.accuracy import cells
from paceline.cluster import Cluster
from paceline.cluster.files import device
from paceline.graph import Graph, MemoryCategory, Phase
from paceline.predict import Prediction, predict
from paceline.record.launch import RecordRequest, launch
from paceline.trace.runs import open_run

JOBS = Path(__file__).parent / "jobs"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
STEPS = 4  # recorded
RUN = 40  # of the recorded job in all
COMPRESSED = ("compress_activations(bits=16)", "compress_activations(bits=8)")
KEPT_LESS = ("restructured_norms", "relu_masks")
CHANGES = {
    "resnet20": ("", "checkpoint", "checkpoint(layers='3|4|5')", *COMPRESSED, *KEPT_LESS),
    "transformer": ("", "checkpoint", "checkpoint(layers='layers.layers.[01]')", *COMPRESSED),
    "mlp": ("", "checkpoint(layers='*', every=4)", *COMPRESSED),
    "wide": ("", "checkpoint(layers='*', every=3)", *COMPRESSED),
}
QUICK = {"resnet20": ("", "checkpoint")}
SMALL = 0.01  # of the peak: categories below it are not judged


@dataclass(frozen=True)
class Held:
    """Bytes of a rank: its peak, and categories when they are fullest."""

    peak: int
    model_and_batch: int
    gradients: int
    optimizer: int
    communication: int
    activations: int


def main() -> None:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--budget", type=float, default=20.0, metavar="MINUTES")
    parser.add_argument("--fresh", action="store_true", help="measure kept models anew")
    options = parser.parse_args()
    if options.quick:
        rows = [row for model, changes in QUICK.items() for row in rows_of(model, changes)]
    else:
        makers = {model: partial(_model, model, changes) for model, changes in CHANGES.items()}
        models = kept.rows("memory", makers, options.budget, fresh=options.fresh)
        rows = [row for model in models.values() for row in model["rows"]]
    measure.report("accuracy/memory", figures(rows), options, "torch")


def _model(model: str, changes: tuple[str, ...]) -> dict[str, Any]:
    return {"rows": rows_of(model, changes)}


def rows_of(model: str, changes: tuple[str, ...]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as scratch:
        graph = recorded(model, Path(scratch))
        return [row(model, change, graph, Path(scratch)) for change in changes]


def recorded(model: str, scratch: Path) -> Graph:
    script = (str(JOBS / "train.py"), "--model", model, "--steps", str(RUN), "--out", os.devnull)
    done = launch(RecordRequest((*TORCHRUN, *script), scratch / "run", STEPS, 2), os.environ)
    return open_run(done.folder)


def row(model: str, change: str, graph: Graph, scratch: Path) -> dict[str, Any]:
    told, truth = predicted(graph, change), measured(model, change, scratch)
    categories = {
        name: (getattr(told, name), getattr(truth, name))
        for name in vars(truth)
        if name != "peak" and getattr(truth, name) >= SMALL * truth.peak
    }
    return {
        "model": model,
        "change": change or "plain",
        "predicted": vars(told),
        "measured": vars(truth),
        "error": round(told.peak / truth.peak - 1, 4),
        "category_errors": {name: round(p / m - 1, 4) for name, (p, m) in categories.items()},
    }


def predicted(graph: Graph, change: str) -> Held:
    found = predict(graph, [change] if change else [], workers())
    assert found.memory is not None
    peak = found.memory.ranks[0]
    most: Mapping[str, int] = peak.highest
    return Held(
        peak=peak.peak_bytes,
        model_and_batch=most["weights"] + most["other"],
        gradients=most["gradients"],
        optimizer=most["optimizer"],
        communication=most["communication"],
        activations=kept_forward(found),
    )


def workers() -> Cluster:
    """Two workers whose ops can all be priced; what they hold does not depend on it."""
    found = cells.cluster(2, 1000)
    hosts = tuple(replace(host, device=device("epyc-2c")) for host in found.hosts)
    return replace(found, hosts=hosts)


def kept_forward(found: Prediction) -> int:
    """Activations that the first rank's forward pass takes and does not give back."""
    graph = found.timeline.graph
    memory, ops = graph.memory, graph.ops
    mine = (ops.rank[memory.op] == 0) & (ops.step[memory.op] == ops.step.min())
    mine &= (ops.phase[memory.op] == Phase.FORWARD) & (
        memory.category == MemoryCategory.ACTIVATIONS
    )
    return int(memory.delta_bytes[mine].sum())


def measured(model: str, change: str, scratch: Path) -> Held:
    """Of a fresh job."""
    out = scratch / "truth.json"
    script = (str(JOBS / "memory.py"), "--model", model, "--change", change, "--out", str(out))
    done = subprocess.run((*TORCHRUN, *script), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{model} under {change or 'nothing'} ended badly:\n{done.stderr[-2000:]}")
    return Held(**json.loads(out.read_text()))


def figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    worst = max(rows, key=lambda r: abs(r["error"]))
    by_category = [
        (abs(error), f"{r['model']}, {r['change']}: {name}")
        for r in rows
        for name, error in r["category_errors"].items()
    ]
    largest = max(by_category)
    return {
        "memory_error": abs(worst["error"]),
        "memory_error_row": {key: worst[key] for key in ("model", "change", "error")},
        "mean_memory_error": round(statistics.mean(abs(r["error"]) for r in rows), 4),
        "category_error": largest[0],
        "category_error_row": largest[1],
        "rows": rows,
    }


if __name__ == "__main__":
    main()
