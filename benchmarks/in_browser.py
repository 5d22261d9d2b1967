"""The page in a real headless Chromium: how fast it opens and reacts, and what it holds.

Jobs: `demo`, a recording of this repository, whose typical step is condensed; `exact`, dPRO's shape
of training over rings, 211,200 ops, each of which the page replays at every movement of a slider;
`large`, 60 million events of 1,024 ranks, drawn as intervals.
"""

import json
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.large_page import large_page
from benchmarks.large_run import LargeRun
from paceline.cluster import parse
from paceline.graph import Graph, load_graph
from paceline.graph.synthetic import Ring, ring
from paceline.report.page import PageRequest, carried_by_default, gather, write_page

TIMED = Path(__file__).parents[1] / "web" / "test" / "timed.js"
DEMO = measure.RESULTS / "recordings" / "mlp"
EXACT = Ring(ranks=32, jitter=0.05)
PLACE = "hosts: 2\nlink: {rate: 1Gbps, latency: 100us}\n"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Effort:
    """How often each thing is done."""

    openings: int
    drags: int
    many: int  # of the test for leaks, with zooms between
    zooms: int
    ranks: int  # of the large run


FULL = Effort(openings=7, drags=200, many=1000, zooms=200, ranks=1024)
QUICK = Effort(openings=3, drags=40, many=100, zooms=40, ranks=64)


def figures(*, quick: bool) -> dict[str, Any]:
    """Seconds to a timeline that reacts, milliseconds of a drag (p95), megabytes of files, and how
    many megabytes more the page holds after 1,000 drags and 200 zooms."""
    effort = QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        demo = _page("demo", load_graph(DEMO), Path(folder), elsewhere=True)
        exact = _page("exact", ring(EXACT), Path(folder), elsewhere=False)
        run = LargeRun(ranks=effort.ranks)
        large = large_page(run, Path(folder))
        small = timed(demo, effort, ("rate", "forward"))
        big = timed(exact, effort, ("compute", "communication"))
        huge = timed(large, replace(effort, drags=0), ())
        sizes = {"demo_mb": _mb(demo), "page_mb": _mb(exact), "large_mb": _mb(large)}
    return {
        "paint_s": statistics.median(big["paint_s"]),
        "demo_paint_s": statistics.median(small["paint_s"]),
        "large_paint_s": statistics.median(huge["paint_s"]),
        "large_events": run.events,
        "drag_ms": _p95(big["drag_ms"]),
        "drag_median_ms": statistics.median(big["drag_ms"]),
        "drag_condensed_ms": _p95(small["drag_ms"]),
        "leak_mb": (big["held_after"] - big["held_before"]) / 1e6,
        "held_mb": big["held_after"] / 1e6,
        "demo_leak_mb": (small["held_after"] - small["held_before"]) / 1e6,
        "drags": effort.many,
        "zooms": effort.zooms,
        **sizes,
    }


def browser() -> str | None:
    """Chromium's path, where there is one."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def timed(page: Path, effort: Effort, sliders: tuple[str, ...]) -> dict[str, Any]:
    """What `web/test/timed.js` tells of a page."""
    asked = {"chromium": browser(), "file": str(page), "sliders": sliders, **vars(effort)}
    done = subprocess.run(
        ["node", str(TIMED), json.dumps(asked)], capture_output=True, text=True, check=True
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _page(name: str, graph: Graph, folder: Path, *, elsewhere: bool) -> Path:
    cluster = parse(PLACE) if elsewhere else None
    strategies = carried_by_default(graph, cluster)
    asked = PageRequest(name, graph, cluster=cluster, strategies=strategies)
    return write_page(gather(asked), folder / f"{name}.html")


def _mb(page: Path) -> float:
    return page.stat().st_size / 1e6


def _p95(samples: list[float]) -> float:
    return float(np.percentile(samples, 95))
