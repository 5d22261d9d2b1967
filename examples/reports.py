"""`make reports`: pages of the recordings that come with Paceline, and of any traces named.

    python examples/reports.py                        # two recorded jobs of this repository
    python examples/reports.py rank0.json.gz traces/  # and profilers' traces, each its own run

Each page is one file in runs/reports that opens from disk. The recorded jobs are shown on an
office's network, whose links can be slid; a trace is imported beside its page, with its files.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import paceline

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "benchmarks" / "results" / "recordings"
NAMES = ("transformer", "resnet20")
OFFICE = ROOT / "examples" / "office.yaml"
PLACE = Path("runs/reports")


def main(traces: Sequence[str], place: Path = PLACE) -> None:
    place.mkdir(parents=True, exist_ok=True)
    office = paceline.load_cluster(OFFICE)
    for name in NAMES:
        said(paceline.report(SHIPPED / name, place / f"{name}.html", office))
    for trace in map(Path, traces):
        run = place / trace.name.split(".")[0]
        if not run.exists():
            paceline.import_traces([trace], run)
        said(paceline.report(run, place / f"{run.name}.html"))


def said(page: Path) -> None:
    print(f"{page} ({page.stat().st_size / 1e6:.2f} MB)", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
