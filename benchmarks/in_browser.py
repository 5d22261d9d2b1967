"""The page in a real headless Chromium: how fast it opens and reacts, and what it holds.

Jobs: `demo`, a recording of this repository; `large`, dPRO's shape of training over rings, 211,200
ops, each of which the page replays at every movement of a slider.
"""

import json
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from paceline.cluster import parse
from paceline.graph import Graph, load_graph
from paceline.graph.synthetic import Ring, ring
from paceline.report.page import Asked, carried_by_default, gather, write_page

TIMED = Path(__file__).parents[1] / "web" / "test" / "timed.js"
DEMO = measure.RESULTS / "recordings" / "mlp"
LARGE = Ring(ranks=32, jitter=0.05)
PLACE = "hosts: 2\nlink: {rate: 1Gbps, latency: 100us}\n"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Effort:
    """How often each thing is done."""

    openings: int
    drags: int
    many: int  # of the test for leaks, with zooms between
    zooms: int


FULL = Effort(openings=7, drags=200, many=1000, zooms=200)
QUICK = Effort(openings=3, drags=40, many=100, zooms=40)


def figures(*, quick: bool) -> dict[str, Any]:
    """Seconds to a timeline that reacts, milliseconds of a drag (p95), megabytes of files, and how
    many megabytes more the page holds after 1,000 drags and 200 zooms."""
    effort = QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        demo = _page("demo", load_graph(DEMO), Path(folder), elsewhere=True)
        large = _page("large", ring(LARGE), Path(folder), elsewhere=False)
        small = timed(demo, effort, ("rate", "forward"))
        big = timed(large, effort, ("compute", "communication"))
        sizes = {"demo_mb": _mb(demo), "page_mb": _mb(large)}
    return {
        "paint_s": statistics.median(big["paint_s"]),
        "demo_paint_s": statistics.median(small["paint_s"]),
        "drag_ms": _p95(big["drag_ms"]),
        "drag_median_ms": statistics.median(big["drag_ms"]),
        "demo_drag_ms": _p95(small["drag_ms"]),
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
    asked = Asked(name, graph, cluster=cluster, strategies=strategies)
    return write_page(gather(asked), folder / f"{name}.html")


def _mb(page: Path) -> float:
    return page.stat().st_size / 1e6


def _p95(samples: list[float]) -> float:
    return float(np.percentile(samples, 95))
