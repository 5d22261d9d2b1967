"""Does every workload of `paceline bench` converge to its named quality, and how long does it take?

Each is trained by `paceline bench run --quality`, on one worker with one thread, to the target that
its file names, on data that is not trained on. `seconds` counts from the first step on, looks at
the quality included; of all workloads together. Rows are kept in `results/workloads-rows` as they
come, so that a run that was cut short goes on; `--fresh` trains everything anew.

    python benchmarks/workloads.py --json
    python benchmarks/workloads.py --only gnn decoder
"""

import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import measure
from paceline.bench import catalogue, named
from paceline.bench.quality import trained
from paceline.bench.sweep import Sweep

KEPT = measure.RESULTS / "workloads-rows"
FASHION = Path(__file__).parents[2] / "shared" / "data"
QUICK = ("gnn", "spiking_population")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--fresh", action="store_true", help="train anew what is kept")
    parser.add_argument("--data", type=Path, default=FASHION, help="holds `fashion-mnist`")
    options = parser.parse_args(arguments)
    if options.fresh:
        shutil.rmtree(KEPT, ignore_errors=True)
    names = tuple(options.only) or (QUICK if options.quick else catalogue.names())
    data = options.data if options.data.exists() else None
    rows, failed = trained(Sweep(KEPT, names, data=data), _tell)
    figures = {
        "reached_share": sum(row.reached for row in rows) / len(names),
        "all_reached": not failed and all(row.reached for row in rows),
        "seconds": round(sum(row.seconds for row in rows), 1),
        "slowest_s": round(max((row.seconds for row in rows), default=0.0), 1),
        "failed": failed,
        "rows": [{"domain": named(row.workload).domain.value, **asdict(row)} for row in rows],
    }
    return measure.report("workloads", figures, options, "torch", "gymnasium", "snntorch")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
