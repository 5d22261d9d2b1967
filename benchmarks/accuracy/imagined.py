"""Imagined passes of two models, held against traces of the same passes on two GPUs.

    python benchmarks/accuracy/imagined.py --json

The scripts (jobs/bert_small.py, jobs/qwen_small.py) do by shapes what the traced ones did. What
their hosts take for a call of an operator was set with the H100's two traces in sight; nothing was
taken from the MI300X's, which were recorded beside another host.

- `host_error_*`: the host's time from its first launch to its last, imagined against recorded less
  what the recording cost it (`OPERATOR_US`, `PYTHON_US`).
- `step_error_*`: the same of whole steps, and `bare_error_*` of steps as if nobody had to launch.
"""

import gzip
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402
from paceline.cluster.files import from_document  # noqa: E402
from paceline.cost import price  # noqa: E402
from paceline.graph import Graph, OpKind  # noqa: E402
from paceline.imagine.imagine import ScriptJob, imagine  # noqa: E402
from paceline.replay import Timeline, replay  # noqa: E402

SHARED = Path(os.environ.get("PACELINE_SHARED", ROOT.parent / "shared"))
TRACES = SHARED / "data" / "traces" / "h100-mi300x"
JOBS = {"bert-small": "bert_small.py", "qwen1.5-0.5b": "qwen_small.py"}
SEEN, HELD_BACK = "h100", "mi300x"
OPERATOR_US = 0.6
"""What the profiler costs an operator: 0.5 to 0.7 us on the machines of the other benchmarks."""
PYTHON_US = 1.1
"""What it costs a Python function where stacks are recorded, as these traces have them: with
`OPERATOR_US`, what is left then fits both models of the H100 by one time for each operator."""


@dataclass(frozen=True)
class Recorded:
    """One traced step, in ms; `host_ms` ends with the last launch."""

    step_ms: float
    host_ms: float
    instruments_ms: float


def main() -> None:
    options = measure.parser(__doc__ or "", waits=False).parse_args()
    if not TRACES.exists():
        sys.exit(f"{TRACES} is not there: the data set is kept beside the checkout")
    rows = [row_of(model, name) for model in JOBS for name in (SEEN, HELD_BACK)]
    found: dict[str, Any] = {}
    for role, name in (("seen", SEEN), ("held_back", HELD_BACK)):
        mine = [row for row in rows if row["device"] == name]
        for figure in ("host_error", "step_error", "bare_error"):
            worst = [abs(row[figure]) for row in mine]
            found[f"{figure}_{role}"] = round(float(np.mean(worst)), 4)
    measure.report("accuracy/imagined", {**found, "rows": rows}, options, "torch")


def row_of(model: str, device: str) -> dict[str, Any]:
    told = recorded(TRACES / f"{device}_{model}.json.gz")
    graph, timeline = imagined(JOBS[model], device)
    host, step = host_ms(graph, timeline), float(timeline.end_ns.max()) / 1e6
    bare = float(graph.ops.dur_ns[graph.ops.kind == OpKind.COMPUTE].sum()) / 1e6
    true_host, true_step = (whole - told.instruments_ms for whole in (told.host_ms, told.step_ms))
    if told.step_ms > 1.2 * told.host_ms:  # the device was last: instruments ran beside it
        true_step = told.step_ms
    return {
        "model": model,
        "device": device,
        "recorded_step_ms": round(told.step_ms, 3),
        "recorded_host_ms": round(told.host_ms, 3),
        "instruments_ms": round(told.instruments_ms, 3),
        "imagined_step_ms": round(step, 3),
        "imagined_host_ms": round(host, 3),
        "operators": int((graph.ops.kind == OpKind.COMPUTE).sum()),
        "calls_per_operator": round(calls(graph), 2),
        "host_error": round(host / true_host - 1, 4),
        "step_error": round(step / true_step - 1, 4),
        "bare_error": round(bare / true_step - 1, 4),
    }


def imagined(job: str, device: str) -> tuple[Graph, Timeline]:
    """One forward pass, priced for one such device."""
    script = Path(__file__).parent / "jobs" / job
    graph = imagine(ScriptJob((str(script),), 1, forward=True, gpu=True))
    cluster = from_document({"hosts": {"device": device}, "link": "ethernet-1g"})
    priced = price(graph, cluster)
    return priced, replay(priced)


def host_ms(graph: Graph, timeline: Timeline) -> float:
    return float(timeline.end_ns[graph.ops.kind == OpKind.HOST].max()) / 1e6


def calls(graph: Graph) -> float:
    """Of operators, for each that launches."""
    scale = graph.ops.scale_ppb[graph.ops.kind == OpKind.HOST]
    return float((scale / scale.min()).mean())


def recorded(path: Path) -> Recorded:
    """From the first launch on: what a script does before is not its model's."""
    with gzip.open(path) as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]
    launches = [e for e in events if "aunchKernel" in e["name"]]
    begin, last = min(e["ts"] for e in launches), max(e["ts"] + e["dur"] for e in launches)
    end = max(e["ts"] + e["dur"] for e in events if _is(e, "kernel"))
    beside = [e for e in events if begin <= e["ts"] < last]
    cost = OPERATOR_US * sum(_is(e, "cpu_op") for e in beside)
    cost += PYTHON_US * sum(_is(e, "python_function") for e in beside)
    return Recorded((end - begin) / 1e3, (last - begin) / 1e3, cost / 1e3)


def _is(event: dict[str, Any], category: str) -> bool:
    return str(event.get("cat", "")).startswith(category)


if __name__ == "__main__":
    main()
