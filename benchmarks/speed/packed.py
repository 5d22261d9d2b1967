"""Packed runs: how large they are in a file, and how long they take to open.

`packed_mb` and `large_packed_mb`: 211,200 ops with ten samples each, and levels of detail of 60
million events of 1,024 ranks, as base64 in a file; `..._open_s`: how long Node takes from these
bytes to what is drawn first of 120 lanes (for the ops, a replay included).
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.large_run import LargeRun, spans_of_run

from benchmarks import measure
from paceline.engine import module_file, native
from paceline.graph import Spread
from paceline.graph.synthetic import Ring, ring
from paceline.report.page import coarse, pack, packed

OPENED = Path(__file__).parents[2] / "web" / "test" / "opened.js"
BASE64 = 4 / 3
MOST = 5_500_000  # intervals of a large run: some 45 MB


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = measure.parser(__doc__ or "").parse_args(arguments)
    return measure.report("speed/packed", files(options.quick), options)


def files(quick: bool) -> dict[str, Any]:
    """How large packed files are, and how long they take to open."""
    graph, run = ring(Ring(ranks=32, jitter=0.05)), LargeRun(ranks=64 if quick else 1024)
    noise = np.random.default_rng(1).normal(1, 0.05, (len(graph), 10)).clip(0.5)
    samples = np.rint(graph.ops.dur_ns[:, None] * noise).astype(np.int64)
    ptr = np.arange(len(graph) + 1, dtype=np.int64) * 10
    exact = pack(replace(graph, spread=Spread(ptr, samples.ravel())))
    coarser = levels(run)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, "graph.pack"), Path(folder, "levels.pack")]
        for path, packed_bytes in zip(paths, (exact, coarser)):
            path.write_bytes(packed_bytes)
        command = ["node", str(OPENED), str(module_file()), *map(str, paths)]
        opened: dict[str, float] = json.loads(subprocess.check_output(command))
    return {
        "packed_ops": len(graph),
        "packed_mb": len(exact) * BASE64 / 1e6,
        "large_events": run.events,
        "large_packed_mb": len(coarser) * BASE64 / 1e6,
        **opened,
    }


def levels(run: LargeRun) -> bytes:
    spans, step_ns = spans_of_run(run)
    part = coarse(spans, step_ns, MOST * run.ranks // 1024)
    lanes = [{"rank": lane // 2, "name": f"lane {lane % 2}"} for lane in range(spans.lanes)]
    return packed(part.columns, {**part.facts, "lanes": lanes, "step_ns": step_ns})


if __name__ == "__main__":
    if native() is None or not module_file().is_file():
        raise SystemExit("this needs the native core and the page's engine; build both: make wasm")
    main()
