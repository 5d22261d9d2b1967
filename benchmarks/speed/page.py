"""The page of a run: whether its engine tells the truth, how fast it opens and reacts.

`equal_share`: of recorded jobs, made-up ones, 1,000 random graphs and 1,000 random labs (shared
cores, shaped links, contention), the share whose replay by the page's WebAssembly in Node equals
the native engine's, ready, start and end of every op to the nanosecond, or is refused by both.

The rest is seen in a real headless Chromium (benchmarks/in_browser.py): `paint_s` and
`large_paint_s`, from opening the file to a timeline that was zoomed and drawn; `drag_ms` and
`drag_condensed_ms`, from a slider's movement to the page drawn, p95; `demo_mb`, `page_mb` and
`large_mb`, files; `leak_mb`, what the page holds more after 1,000 drags and 200 zooms.
`vs_perfetto` is our time from a trace of 430 MB to its timeline, to that of Perfetto
(benchmarks/in_perfetto.py).
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.conditions import Conditions
from benchmarks.in_node import Case, compared

from benchmarks import in_browser, in_perfetto, measure
from paceline.engine import module_file, native
from paceline.graph import load_graph
from paceline.graph.synthetic import Pipeline, Ring, jumble, pipeline, ring

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
    figures = {"equal_share": same / of, **figures, "module_bytes": module_file().stat().st_size}
    figures |= in_browser.figures(quick=options.quick)
    figures |= in_perfetto.figures(quick=options.quick)
    return measure.report("speed/page", figures, options, "viztracer")


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
    if in_browser.browser() is None:
        raise SystemExit("this opens the page in Chromium, and there is none: apt install chromium")
    main()
