"""What GPU traces tell of their kernels, and what another GPU would make of them.

- `known_share`: of the kernels' time in traces that recorded shapes, the part whose op knows its
  arithmetic and bytes; `known_share_all` over all traces, of which most recorded none.
- `device_error_mean`: the sum of kernel times carried to another device against those recorded
  there, for every pair `DEVICE_MODEL.json.gz` in a folder, in both directions; `interval_held` of
  how many of these sums, and of how many of their classes, the predicted interval holds what was
  recorded there.
- `step_error`: imported traces of several GPUs, replayed, against their own steps.

Nothing is fitted to these traces, but for the least time of AMD's kernels (`least` in
`cost/achieved.yaml`), which no source gives.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.given_folders import FolderError
from paceline.cluster.files import device
from paceline.cost.ported import kernel_rows
from paceline.cost.spreads import spreads_of
from paceline.graph import Graph
from paceline.graph.work import Family
from paceline.replay import replay
from paceline.replay.steps import step_times
from paceline.strategies import parse
from paceline.trace.build import build
from paceline.trace.readers import read_all
from paceline.trace.readers.source import sources
from paceline.trace.steps import common_steps, steps_of
from paceline.trace.trace import Trace
from paceline.trace.view import RankView

MANY_GPUS = ("dlrm-8xV100", "nccl-metadata", "df_index_resolver.json.gz")


def own_figures(traces: Path) -> dict[str, Any]:
    """What each trace tells of its kernels, and its own step replayed."""
    files = sorted(traces.rglob("*.gz"))
    known = [known_row(traces, file) for file in files]
    steps = [step_row(traces / name) for name in MANY_GPUS if (traces / name).exists()]
    return {
        "known_share": _share(row for row in known if row["shapes"]),
        "known_share_all": _share(known),
        "known_rows": known,
        "step_error": max((abs(row["error"]) for row in steps), default=None),
        "step_rows": steps,
    }


def pair_figures(folder: Path) -> dict[str, Any]:
    """Kernel times of each model carried from each device to each other."""
    require_pairs(folder)
    rows = list(device_rows(folder))
    return {
        "device_error_mean": float(np.mean([abs(row["error"]) for row in rows])),
        "device_error_kept": float(np.mean([abs(row["kept"]) for row in rows])),
        "device_worse_than_kept": sum(abs(row["error"]) > abs(row["kept"]) for row in rows),
        "interval_held": interval_held(rows),
        "device_rows": rows,
    }


def interval_held(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Classes of less than a fiftieth of a model's time are not counted."""
    classes = [
        one["low_ms"] <= one["measured_ms"] <= one["high_ms"]
        for row in rows
        for one in row["by_class"].values()
        if one["measured_ms"] > row["measured_ms"] / 50
    ]
    return {
        "sums": sum(row["inside"] for row in rows),
        "of_sums": len(rows),
        "classes": sum(classes),
        "of_classes": len(classes),
    }


def known_row(folder: Path, file: Path) -> dict[str, Any]:
    traces = read(file)
    graph = build(traces)
    rows = kernel_rows(graph)
    dur, known = graph.ops.dur_ns[rows], _known(graph, rows)
    sure = known & ~np.array([*(w.inferred for w in graph.works), True])[graph.ops.work[rows]]
    return {
        "trace": str(file.relative_to(folder)),
        "shapes": any(b'"Input Dims"' in form for trace in traces for form in trace.forms),
        "kernel_ms": dur.sum() / 1e6,
        "known_ms": dur[known].sum() / 1e6,
        "known": float(dur[known].sum() / dur.sum()) if len(dur) else None,
        "from_its_operator": float(dur[sure].sum() / dur.sum()) if len(dur) else None,
        "unknown": _largest_unknown(graph, rows[~known]),
    }


def _known(graph: Graph, rows: Any) -> Any:
    return np.array([*(w.work.is_known for w in graph.works), False])[graph.ops.work[rows]]


def _largest_unknown(graph: Graph, rows: Any) -> dict[str, float]:
    """Milliseconds of the costliest kernels of unknown work."""
    took: dict[str, float] = defaultdict(float)
    for row in rows.tolist():
        took[graph[row].name[:60]] += graph.ops.dur_ns[row] / 1e6
    return dict(sorted(took.items(), key=lambda item: -item[1])[:5])


def _share(rows: Any) -> float | None:
    kept = list(rows)
    whole = sum(row["kernel_ms"] for row in kept)
    return sum(row["known_ms"] for row in kept) / whole if whole else None


def read(path: Path) -> list[Trace]:
    return read_all(sources([path]))


def require_pairs(folder: Path) -> None:
    """At least one model on two devices that presets know."""
    if not folder.is_dir():
        raise FolderError(f"{folder} is no folder; give one of traces DEVICE_MODEL.json.gz")
    named = _pairs(folder)
    if not any(len(files) > 1 for files in named.values()):
        raise FolderError(
            f"{folder} holds no model on two devices; give traces named DEVICE_MODEL.json.gz, such "
            f"as h100_bert.json.gz and mi300x_bert.json.gz (models found: {', '.join(named) or 0})"
        )
    for name in {name for files in named.values() for name in files}:
        device(name)


def _pairs(folder: Path) -> dict[str, dict[str, Path]]:
    """By model and device."""
    found: dict[str, dict[str, Path]] = defaultdict(dict)
    for file in sorted(folder.glob("*_*.json.gz")):
        name, _, model = file.name.removesuffix(".json.gz").partition("_")
        found[model][name] = file
    return found


def device_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Every model in both directions between any two devices that it was recorded on."""
    for model, files in _pairs(folder).items():
        by_device = {name: build(read(file)) for name, file in files.items()}
        for origin, destination in permutations(by_device, 2):
            yield device_row(model, by_device, origin, destination)


def device_row(model: str, graphs: dict[str, Graph], origin: str, target: str) -> dict[str, Any]:
    made = parse(f"device(name={target!r}, recorded={origin!r})").transform(graphs[origin])
    there, kept, found = (_by_class(g) for g in (graphs[target], graphs[origin], made))
    whole, (low, high) = sum(there.values()), _interval(made)
    classes = sorted(there | found, key=lambda name: -there.get(name, 0.0))
    return {
        "model": model,
        "from": origin,
        "to": target,
        "measured_ms": whole,
        "error": sum(found.values()) / whole - 1,
        "kept": sum(kept.values()) / whole - 1,
        "inside": sum(low.values()) <= whole <= sum(high.values()),
        "by_class": {
            name: {
                "measured_ms": there.get(name, 0.0),
                "predicted_ms": found.get(name, 0.0),
                "kept_ms": kept.get(name, 0.0),
                "low_ms": low.get(name, 0.0),
                "high_ms": high.get(name, 0.0),
            }
            for name in classes
        },
    }


def _interval(graph: Graph) -> tuple[dict[str, float], dict[str, float]]:
    """Milliseconds by class if every kernel errs as is typical, to either side."""
    wide, dur = 1 + spreads_of(graph, graph.ops.basis), graph.ops.dur_ns
    ends = (np.rint(dur / wide), np.rint(dur * wide))
    low, high = (
        _by_class(replace(graph, ops=replace(graph.ops, dur_ns=end.astype(np.int64))))
        for end in ends
    )
    return low, high


def _by_class(graph: Graph) -> dict[str, float]:
    """Milliseconds of kernels by family of operators."""
    rows = kernel_rows(graph)
    family = np.array([*(w.work.family for w in graph.works), Family.OTHER])[graph.ops.work[rows]]
    took = np.bincount(family, graph.ops.dur_ns[rows], len(Family)) / 1e6
    return {Family(at).name.lower(): float(ms) for at, ms in enumerate(took) if ms}


def step_row(path: Path) -> dict[str, Any]:
    traces = read(path)
    replayed = np.median(step_times(replay(build(traces))).lasted_ns)
    recorded = np.median(recorded_steps(traces))
    return {
        "trace": path.name,
        "ranks": len(traces),
        "recorded_ms": float(recorded / 1e6),
        "replayed_ms": float(replayed / 1e6),
        "error": float(replayed / recorded - 1),
    }


def recorded_steps(traces: list[Trace]) -> Any:
    """From a step's mark to the next, and to the rank's last event; on the mean of the ranks."""
    views = [RankView(trace) for trace in traces]
    steps, _ = common_steps([steps_of(view)[0] for view in views])
    ends = [int(view.trace.events.end_ns.max()) for view in views]
    lasted = [np.diff(np.append(s.start_ns, end)) for s, end in zip(steps, ends)]
    return np.mean(lasted, axis=0)
