"""The page of a run: whether its engine tells the truth.

`equal_share`: of recorded jobs, made-up ones, 1,000 random graphs and 1,000 random labs (shared
cores, shaped links, contention), the share whose replay by the page's WebAssembly in Node equals
the native engine's, ready, start and end of every op to the nanosecond, or is refused by both.

`packed_mb` and `large_packed_mb`: 211,200 ops with ten samples each, and levels of detail of 60
million events of 1,024 ranks, as base64 in a file; `..._open_s`: how long Node takes from these
bytes to what is drawn first (a replay included, for the ops).
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

from benchmarks.conditions import Conditions
from benchmarks.in_node import Case, compared
from benchmarks.large_run import LargeRun, spans_of_run

from benchmarks import measure
from paceline.engine import module_file, native
from paceline.graph import Spread, load_graph
from paceline.graph.synthetic import Pipeline, Ring, jumble, pipeline, ring
from paceline.report.page import coarse, pack, packed

OPENED = Path(__file__).parents[2] / "web" / "test" / "opened.js"
BASE64 = 4 / 3
MOST = 5_500_000  # intervals of a large run: some 45 MB
RECORDINGS = measure.RESULTS / "recordings"


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = measure.parser(__doc__ or "").parse_args(arguments)
    count = 100 if options.quick else 1000
    kinds = {"jobs": jobs(), "random": random_graphs(count), "labs": labs(count)}
    figures: dict[str, Any] = {}
    same = of = 0
    for kind, cases in kinds.items():
        with tempfile.TemporaryDirectory() as folder:
            found = compared(cases, Path(folder))
            replayed = len(list(Path(folder).glob("*.times")))
        figures |= {f"{kind}": len(found), f"{kind}_replayed": replayed}
        same, of = same + sum(found.values()), of + len(found)
    size = module_file().stat().st_size
    figures = {"equal_share": same / of, **figures, **files(options.quick), "module_bytes": size}
    return measure.report("speed/page", figures, options)


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


def jobs() -> dict[str, Case]:
    """Recorded ones, with all their steps; rings; pipelines."""
    found = {folder.name: Case(load_graph(folder)) for folder in sorted(RECORDINGS.iterdir())}
    for ranks in (2, 8, 32):
        found[f"ring-{ranks}"] = Case(ring(Ring(ranks=ranks, jitter=0.05)))
    for stages in (1, 2, 8):
        made = Pipeline(stages, 16, forward_ns=10, backward_ns=20, message_ns=3, update_ns=5)
        found[f"pipeline-{stages}"] = Case(pipeline(made))
    return found


def random_graphs(count: int) -> dict[str, Case]:
    return {
        f"{seed}": Case(jumble(seed, longest=60, recorded=seed % 4 == 0)) for seed in range(count)
    }


def labs(count: int) -> dict[str, Case]:
    found = {}
    for seed in range(count):
        on = Conditions(seed, turns=seed % 2 == 0, shaped=seed % 3 > 0, hosts=seed % 5 > 0)
        graph = on.graph()
        found[f"{seed}"] = Case(graph, on.shares(graph))
    return found


if __name__ == "__main__":
    if native() is None or not module_file().is_file():
        raise SystemExit("this compares the native core with the page's engine; build both: make")
    main()
