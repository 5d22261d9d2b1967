"""All-reduce times over 1 to 1,024 MiB, from ten measured sizes: error on all the others.

The tables are vTrain's, measured on an A100 node with four and with eight GPUs, in place and out of
place. The ten sizes lie in a geometric row from the first to the last size; they are the only ones
the curve sees. The line of latency and bandwidth is fitted to the same ten, for comparison.

`--test FILE_OR_FOLDER` judges other tables of the same columns.
"""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402
from paceline.cost.curve import Curve, ten_sizes  # noqa: E402
from paceline.cost.fit import fit_line  # noqa: E402

SHARED = Path(os.environ.get("PACELINE_SHARED", ROOT.parent / "shared"))


def main() -> None:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--test", type=Path, metavar="FILE_OR_FOLDER", help="judge these tables")
    options = parser.parse_args()
    where = options.test or SHARED / "data" / "vtrain"
    tables = [where] if where.is_file() else sorted(where.glob("AR_GPU*_LUT"))
    if not tables:
        sys.exit(f"no tables AR_GPU*_LUT in {where}; set PACELINE_SHARED to the folder above data")
    rows = [row for path in tables for row in judged(path)]
    figures = {
        "mean_error": round(float(np.mean([row["mean_error"] for row in rows])), 5),
        "worst_table": max(row["mean_error"] for row in rows),
        "worst_error": max(row["worst_error"] for row in rows),
        "line_mean_error": round(float(np.mean([row["line_mean_error"] for row in rows])), 5),
        "rows": rows,
    }
    measure.report("accuracy/collectives", figures, options)


def judged(path: Path) -> list[dict[str, Any]]:
    """Both columns of times of one table."""
    table = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=(0, 3, 5))
    sizes = table[:, 0]
    known = ten_sizes(sizes)
    tested = np.setdiff1d(np.arange(len(sizes)), known)
    found = []
    for column, way in ((1, "out of place"), (2, "in place")):
        times = table[:, column]
        curve = Curve.through(sizes[known], times[known])
        line = fit_line(sizes[known].tolist(), times[known].tolist())
        off = np.abs(curve.at(sizes[tested]) / times[tested] - 1)
        straight = np.abs(
            [line.at(size) / time - 1 for size, time in zip(sizes[tested], times[tested])]
        )
        worst = int(np.argmax(off))
        found.append(
            {
                "table": f"{path.name}, {way}",
                "fitted_sizes": len(known),
                "tested_sizes": len(tested),
                "mean_error": round(float(off.mean()), 5),
                "worst_error": round(float(off[worst]), 5),
                "worst_size_bytes": int(sizes[tested][worst]),
                "line_mean_error": round(float(straight.mean()), 5),
            }
        )
    return found


if __name__ == "__main__":
    main()
