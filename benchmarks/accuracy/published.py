"""Published training speeds of today's models, predicted without a profile.

Rows of NeMo, Megatron-Bridge and torchtitan on H100, B200 and GB200: tokens per second and GPU from
the model's dimensions, the degrees, the data sheet of the device and the tables that
`cost.forecast` was fitted to. The first row of each system and precision, in the order of the file,
calibrates one figure: by how much that framework's kernels take longer than those tables'. All
other rows are predicted; a precision without a row of its own takes the median of its system, and a
system without rows the median of all.

A row that names no recomputation and would not fit its device recomputes what its framework does
selectively: those pages do not say.

How far this is a blind test: the rule that picks the calibration rows never looks at an error.
These choices were made with the rows in sight: what an eager, a compiled and a library kernel move,
which habits a framework has, and the allocator's idle share. No figure was fitted to a single row.

`--test FILE` predicts the rows of another file of the same columns with what the usual rows
calibrated. `--rows` prints every row.
"""

import csv
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402
from paceline.cluster import from_document  # noqa: E402
from paceline.cost.decoder import DecoderPrices, site_of  # noqa: E402
from paceline.errors import PacelineError  # noqa: E402
from paceline.graph.schedules import Schedule  # noqa: E402
from paceline.imagine.decoder import (  # noqa: E402
    MEGATRON,
    TORCHTITAN,
    TORCHTITAN_COMPILED,
    DecoderJob,
    Precision,
    Recipe,
    Sharding,
    decoder,
    fullest,
)
from paceline.imagine.transformer import Degrees, Recompute  # noqa: E402
from paceline.place.hybrid import Priced, price  # noqa: E402

SHARED = Path(os.environ.get("PACELINE_SHARED", ROOT.parent / "shared"))
GIB: Final = 2**30
Key = tuple[str, str]  # system, precision
Factors = dict[Key, float]


@dataclass(frozen=True)
class Row:
    """One published run."""

    source: str
    system: str
    precision: str
    job: DecoderJob
    gpus: int
    tokens_per_s: float
    memory_gib: float
    text: str

    @property
    def key(self) -> Key:
        return self.system, self.precision

    @property
    def routed(self) -> bool:
        return self.job.model.experts is not None


@dataclass(frozen=True)
class Found:
    """A row beside its prediction."""

    row: Row
    priced: Priced
    calibrated: bool

    @property
    def ratio(self) -> float:
        return self.priced.tokens_per_s / self.row.tokens_per_s


def main() -> None:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--test", type=Path, metavar="FILE", help="predict this file's rows")
    parser.add_argument("--rows", action="store_true", help="print every row")
    options = parser.parse_args()
    path = SHARED / "data" / "published" / "training_speed.csv"
    if not path.exists():
        sys.exit(f"no data in {path}; set PACELINE_SHARED to the folder that holds data/published")
    known, refused = rows(path)
    first = chosen(known)
    factors = {row.key: calibrated(row) for row in first}
    tested, refused = rows(options.test) if options.test else (known, refused)
    found = [
        Found(row, predicted(row, factors), not options.test and row in first) for row in tested
    ]
    if options.rows:
        show(found)
    figures = {
        **judged(found),
        "refused": refused,
        "calibration_rows": [row.text for row in first],
        "factors": {" ".join(key): round(value, 4) for key, value in factors.items()},
        **({"test": options.test.name} if options.test else {}),
    }
    measure.report("accuracy/published", figures, options)


def rows(path: Path) -> tuple[list[Row], list[str]]:
    """All that can be described, and why the others cannot."""
    found: list[Row] = []
    refused: list[str] = []
    with path.open() as file:
        for cells in csv.DictReader(file):
            try:
                found.append(_row(cells))
            except PacelineError as error:
                refused.append(f"{cells['model']} on {cells['gpus']} x {cells['system']}: {error}")
    return found, refused


def chosen(known: Sequence[Row]) -> list[Row]:
    """The first row of each system and precision."""
    first: dict[Key, Row] = {}
    for row in known:
        first.setdefault(row.key, row)
    return list(first.values())


def calibrated(row: Row) -> float:
    """By how much kernels take longer than forecast, from one row, by halving an interval."""
    low, high = 0.3, 4.0
    for _ in range(24):
        middle = (low * high) ** 0.5
        slower = _priced(row, middle).tokens_per_s < row.tokens_per_s
        low, high = (low, middle) if slower else (middle, high)
    return (low * high) ** 0.5


def predicted(row: Row, factors: Factors) -> Priced:
    return _priced(row, factor_of(row.key, factors))


def factor_of(key: Key, factors: Factors) -> float:
    if key in factors:
        return factors[key]
    like = [value for (system, _), value in factors.items() if system == key[0]]
    return statistics.median(like or factors.values())


def judged(found: Sequence[Found]) -> dict[str, Any]:
    tested = [one for one in found if not one.calibrated]
    figures: dict[str, Any] = {"rows": len(found), "predicted": len(tested)}
    for name, routed in (("dense", False), ("moe", True)):
        mine = [one for one in tested if one.row.routed is routed]
        if mine:
            figures |= _errors(name, mine)
    pairs = _pairs(found)
    if pairs:
        figures["ratio_points"] = round(100 * statistics.mean(pairs), 2)
        figures["ratio_pairs"] = len(pairs)
    known = [one for one in found if one.row.memory_gib]
    if known:
        off = [one.priced.peak.allocated / GIB / one.row.memory_gib - 1 for one in known]
        figures["memory_mape"] = round(statistics.mean(map(abs, off)), 4)
        figures["memory_worst"] = round(max(off, key=abs), 4)
    return figures


def _errors(name: str, mine: Sequence[Found]) -> dict[str, Any]:
    off = [one.ratio - 1 for one in mine]
    worst = max(mine, key=lambda one: abs(one.ratio - 1))
    return {
        f"{name}_mape": round(statistics.mean(map(abs, off)), 4),
        f"{name}_median": round(statistics.median(map(abs, off)), 4),
        f"{name}_worst": round(worst.ratio - 1, 4),
        f"{name}_off": round(abs(worst.ratio - 1), 4),
        f"{name}_worst_row": worst.row.text,
        f"{name}_rows": len(mine),
    }


def _pairs(found: Sequence[Found]) -> list[float]:
    """By how much the predicted ratio of two rows of one table differs from the published one;
    a table is a project's on one system. Two rows that both calibrate tell nothing."""
    tables: dict[tuple[str, str], list[Found]] = defaultdict(list)
    for one in found:
        tables[one.row.source, one.row.system].append(one)
    return [
        abs(a.ratio / b.ratio - 1)
        for table in tables.values()
        for a, b in combinations(table, 2)
        if not (a.calibrated and b.calibrated)
    ]


def show(found: Sequence[Found]) -> None:
    for one in found:
        memory = one.row.memory_gib
        held = one.priced.peak.allocated / GIB
        parts = " ".join(f"{k} {v / one.priced.step_ns:.0%}" for k, v in one.priced.parts.items())
        print(
            f"{one.row.text:<62} {one.row.tokens_per_s:>7.0f} {one.priced.tokens_per_s:>7.0f} "
            f"{one.ratio - 1:>+7.1%}{' *' if one.calibrated else '  '} {held:5.1f} GiB"
            f"{f' of {memory:.1f}' if memory else ''}  {parts}"
        )


def _row(cells: dict[str, str]) -> Row:
    number = {
        name: int(cells[name] or 1)
        for name in ("gpus", "gbs", "mbs", "seq", "tp", "pp", "cp", "vp", "ep")
    }
    precision, compiles, overlaps = _spoken(cells["precision"])
    torchtitan = cells["source"].startswith("torchtitan")
    if torchtitan:
        habits = replace(TORCHTITAN_COMPILED if compiles else TORCHTITAN, overlap_tensor=overlaps)
        precision = {"fp8": "fp8-cs"}.get(precision, precision)  # torchao scales dynamically
    else:
        habits = MEGATRON
    shared = number["tp"] * number["pp"] * number["cp"]
    degrees = Degrees(
        data=number["gpus"] // shared, tensor=number["tp"], pipeline=number["pp"],
        sequence=number["cp"], expert=number["ep"],
    )  # fmt: skip
    recipe = Recipe(
        global_batch=number["gbs"],
        micro_batch=number["mbs"],
        sequence=number["seq"],
        precision=Precision(precision),
        schedule=Schedule.INTERLEAVED if number["vp"] > 1 else Schedule.ONE_F_ONE_B,
        chunks=number["vp"],
        sharding=Sharding.FULL if cells["fsdp"] == "1" else Sharding.OPTIMIZER,
        recompute=Recompute(cells["recompute"] or "none"),
        habits=habits,
    )
    text = (
        f"{cells['system'][:9]} {cells['precision']} {cells['model']} {number['gpus']} GPUs "
        f"b{number['gbs']}/{number['mbs']} t{degrees.tensor}p{degrees.pipeline}"
        f"c{degrees.sequence}v{recipe.chunks}e{degrees.expert}{'f' * (cells['fsdp'] == '1')}"
    )
    job = DecoderJob(decoder(cells["model"]), degrees, recipe)
    if not cells["recompute"] and not _fits(job, cells["system"]):
        job = replace(job, recipe=replace(recipe, recompute=Recompute.SELECTIVE))
    return Row(
        cells["source"], cells["system"], cells["precision"],
        job, number["gpus"],
        float(cells["tokens_per_s_per_gpu"]), float(cells["memory_gib"] or 0), text,
    )  # fmt: skip


def _spoken(text: str) -> tuple[str, bool, bool]:
    """The type, whether torch.compile is on, and asynchronous tensor parallelism."""
    words = text.split("-")
    compiles, overlaps = "compile" in words, any(word.startswith("async") for word in words)
    left = [word for word in words if word not in ("compile", "tp") and "async" not in word]
    return "-".join(left), compiles, overlaps


def _fits(job: DecoderJob, system: str) -> bool:
    device = _prices(system, job.degrees.world).site.device
    return fullest(job).total <= device.memory_bytes


@cache
def _prices(system: str, gpus: int) -> DecoderPrices:
    cluster = from_document({"hosts": {"system": system, "count": 1}})
    return DecoderPrices(
        site_of(cluster.with_workers(-(-gpus // cluster.workers) * cluster.workers), gpus)
    )


def _priced(row: Row, factor: float) -> Priced:
    return price(row.job, _prices(row.system, row.gpus).with_factor(factor))


if __name__ == "__main__":
    main()
