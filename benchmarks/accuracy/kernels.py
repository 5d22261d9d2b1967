"""Kernels: what recordings know of them, what another device makes of them, and their arithmetic.

    python -m benchmarks accuracy/kernels
    python benchmarks/accuracy/kernels.py --data FOLDER --json     # other pairs of traces
    python benchmarks/accuracy/kernels.py --test FOLDER --tables FOLDER --json   # other forecasts

Each part is a file beside this one and says what it measures.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402
from benchmarks.accuracy import forecasts, kernel_flops, kernel_traces  # noqa: E402

SHARED = Path(os.environ.get("PACELINE_SHARED", ROOT.parent / "shared"))
TRACES = SHARED / "data" / "traces"


def main() -> None:
    parser = measure.parser(__doc__ or "", waits=False)
    parser.add_argument(
        "--data", type=Path, default=TRACES / "h100-mi300x", metavar="FOLDER",
        help="traces named DEVICE_MODEL.json.gz, of each model on several devices",
    )  # fmt: skip
    forecasts.add_arguments(parser)
    options = parser.parse_args()
    if options.test or options.tables:
        measure.report("accuracy/kernels", forecasts.forecast_figures(options), options)
        return
    if not TRACES.exists():
        sys.exit(f"{TRACES} is not there: the data set is kept beside the checkout")
    found = kernel_traces.figures(TRACES, options.data)
    found |= kernel_flops.figures(kernel_flops.QUICK if options.quick else kernel_flops.MODELS)
    found |= forecasts.forecast_figures(options)
    measure.report("accuracy/kernels", found, options, "torch")


if __name__ == "__main__":
    main()
