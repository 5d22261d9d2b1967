"""Accelerator utilisation with one to four loader workers, predicted from one run without any.

Three formats (npz, tfrecord, jpeg), each with its files in the page cache and out of it, before an
accelerator that sleeps; and one of them (`real_*`) before one that computes on the host's cores.
Hidden from every choice that was made: hdf5 with gzip (`held_back_*`). Errors are in shares of the
running time, as utilisation itself is. Beside each prediction stands the bound that papers draw,
computing over the longer of computing and loading shared by the workers (`naive_*`).

Settings (a format, cached or not) are kept in `results/input-rows.json` as they come, so that a run
that was stopped, or whose `--budget` was spent, goes on; `--fresh` measures them anew. A group's
figures stand once none of its settings is missing. It takes about a quarter of an hour, and up to
1 GB of disk below `--folder`.

    python benchmarks/accuracy/input.py --json
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import kept, measure  # noqa: E402
from paceline.feed import (  # noqa: E402
    Computing,
    DataSet,
    Description,
    FeedError,
    FeedRun,
    Loading,
    generate,
    utilisation,
)
from paceline.feed.drawn import graph_of  # noqa: E402
from paceline.feed.torch_probe import probed  # noqa: E402
from paceline.feed.torch_run import run as train  # noqa: E402
from paceline.predict.input import fed  # noqa: E402

WORKERS = (1, 2, 3, 4)
STEPS = 48
BATCH = 4
BUSY = 0.55
"""Computing as a share of loading: so that one worker is too slow and four are enough, or would
be if there were cores for them."""


@dataclass(frozen=True)
class Job:
    """A data set in a format, and how it is consumed."""

    format: str
    size_bytes: int
    spread_bytes: int = 0
    compression: str = "none"
    computing: Computing = Computing.SLEEP
    group: str = ""  # of its errors; empty: the figure's own

    @property
    def name(self) -> str:
        return f"{self.format} {self.computing.value}"

    def description(self, steps: int) -> Description:
        return Description(
            self.format, self.format, samples=BATCH * steps, size_bytes=self.size_bytes,
            spread_bytes=self.spread_bytes, compression=self.compression, batch=BATCH,
            crop_bytes=min(self.size_bytes, 1 << 20), compute_ns=1_000_000, seed=7,
        )  # fmt: skip


JOBS = (
    Job("npz", 4_000_000, 1_800_000),
    Job("tfrecord", 1_000_000, 100_000),
    Job("jpeg", 900_000),
    Job("jpeg", 900_000, computing=Computing.REAL, group="real_"),
    Job("hdf5", 1_500_000, 400_000, "gzip", group="held_back_"),
)


@dataclass(frozen=True)
class Setting:
    """One row that is kept: a job with its files in the page cache or out of it."""

    job: Job
    cached: bool
    steps: int

    @property
    def name(self) -> str:
        return f"{self.job.name}, {'cached' if self.cached else 'uncached'}, {self.steps} steps"


@dataclass(frozen=True)
class Found:
    """So many workers, measured and predicted."""

    job: str
    group: str
    cached: bool
    workers: int
    measured: float
    predicted: float
    naive: float
    cached_share: float

    @property
    def error(self) -> float:
        return abs(self.predicted - self.measured)


def main() -> None:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--folder", type=Path, help="on the disk to be measured")
    parser.add_argument("--fresh", action="store_true", help="measure anew what is kept")
    parser.add_argument("--budget", type=float, default=60.0, metavar="MINUTES",
                        help="begin no setting after so long (60)")  # fmt: skip
    options = parser.parse_args()
    measure.report("accuracy/input", figures(options), options)


def figures(options: argparse.Namespace) -> dict[str, Any]:
    steps, jobs = (16, JOBS[:3]) if options.quick else (STEPS, JOBS)
    settings = [Setting(job, cached, steps) for job in jobs for cached in (True, False)]
    makers = {each.name: partial(_row, each, options.folder) for each in settings}
    rows = kept.rows("input", makers, options.budget, fresh=options.fresh)
    missing = [each for each in settings if each.name not in rows]
    short = {each.job.group for each in missing}
    found = [row for each in rows.values() for row in each["workers"]]
    groups = [group for group in dict.fromkeys(job.group for job in jobs) if group not in short]
    told: dict[str, Any] = {}
    for group in groups:
        told |= _errors(group, [row for row in found if row["group"] == group])
    return told | {"missing": [each.name for each in missing], "rows": found}


def _errors(group: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    return {
        f"{group}mean_error": mean(row["error"] for row in rows),
        f"{group}worst_error": max(row["error"] for row in rows),
        f"{group}naive_error": mean(abs(row["naive"] - row["measured"]) for row in rows),
    }


def _row(setting: Setting, folder: Path | None) -> kept.Row:
    """The data set is written for it, and goes with it."""
    place = Path(tempfile.mkdtemp(prefix="input-", dir=folder or Path.cwd()))
    try:
        data = generate(setting.job.description(setting.steps), place / "data")
        found = list(_measured(setting, data))
    except FeedError as error:
        raise kept.NotMade(str(error)) from error
    finally:
        shutil.rmtree(place)
    return {"workers": [asdict(each) | {"error": each.error} for each in found]}


def _measured(setting: Setting, data: DataSet) -> Iterator[Found]:
    """Computing is set by what loading takes here, once."""
    job, cached = setting.job, setting.cached
    plain = Loading(cached=cached, computing=job.computing)
    first = train(data, plain)
    data = replace(data, description=replace(data.description, compute_ns=_compute_ns(first)))
    recorded = probed(train(data, plain), data)
    graph = graph_of(recorded)
    loads = [batch.got_ns - batch.asked_ns for batch in recorded.batches[1:]]
    for workers in WORKERS:
        run = train(data, replace(plain, workers=workers))
        found = Found(
            job=job.name,
            group=job.group,
            cached=cached,
            workers=workers,
            measured=utilisation(run).computing,
            predicted=fed(graph, [f"data_workers(count={workers})"]).utilisation,
            naive=min(1.0, recorded.compute_ns / (mean(loads) / workers)),
            cached_share=run.cached_share,
        )
        print(_told(found), file=sys.stderr, flush=True)
        yield found


def _compute_ns(run: FeedRun) -> int:
    loads = [batch.got_ns - batch.asked_ns for batch in run.batches[1:]]
    return max(1_000_000, round(BUSY * mean(loads)))


def _told(row: Found) -> str:
    where = "cached" if row.cached else f"uncached ({row.cached_share:.0%} cached)"
    return (
        f"{row.job:16} {where:24} {row.workers} workers: measured {row.measured:.1%}, "
        f"predicted {row.predicted:.1%} ({row.predicted - row.measured:+.1%}), "
        f"naive {row.naive:.1%}"
    )


if __name__ == "__main__":
    main()
