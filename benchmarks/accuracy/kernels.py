"""Kernels: what recordings know of them, what another device makes of them, and their arithmetic.

    python -m benchmarks accuracy/kernels
    python benchmarks/accuracy/kernels.py --data FOLDER --json     # other pairs of traces
    python benchmarks/accuracy/kernels.py --test FOLDER --tables FOLDER --json   # other forecasts

Folders that are given are judged alone: traces, forecasts, or both. Each part is a file beside this
one and says what it measures.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402
from benchmarks.accuracy import forecasts, kernel_flops, kernel_traces  # noqa: E402
from benchmarks.accuracy.given_folders import ended_plainly  # noqa: E402

SHARED = Path(os.environ.get("PACELINE_SHARED", ROOT.parent / "shared"))
TRACES = SHARED / "data" / "traces"


def main() -> None:
    parser = measure.parser(__doc__ or "", waits=False)
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER",
        help="traces named DEVICE_MODEL.json.gz, of each model on several devices",
    )  # fmt: skip
    forecasts.add_arguments(parser)
    options = parser.parse_args()
    given = options.data or options.test or options.tables
    if given and options.save:
        parser.error("--save keeps all figures; those of a folder go to a file with --json > FILE")
    found = figures_of_given(options) if given else all_figures(options)
    measure.report("accuracy/kernels", found, options, *(() if given else ("torch",)))


def figures_of_given(options: argparse.Namespace) -> dict[str, Any]:
    """Of the folders that were named, and of nothing else but the traces at hand."""
    found: dict[str, Any] = {}
    if options.data:
        found |= kernel_traces.pair_figures(options.data)
        found |= kernel_traces.own_figures(TRACES) if TRACES.exists() else {}
    if options.test or options.tables:
        found |= forecasts.forecast_figures(options)
    return found


def all_figures(options: argparse.Namespace) -> dict[str, Any]:
    if not TRACES.exists():
        sys.exit(f"{TRACES} is not there: the data set is kept beside the checkout")
    return {
        **kernel_traces.own_figures(TRACES),
        **kernel_traces.pair_figures(TRACES / "h100-mi300x"),
        **kernel_flops.figures(kernel_flops.QUICK if options.quick else kernel_flops.MODELS),
        **forecasts.forecast_figures(options),
    }


if __name__ == "__main__":
    ended_plainly(main)
