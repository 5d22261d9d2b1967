"""Kernels measured on one device, carried to another that the forecasts were not taught.

Of every two devices of a vendor, shapes that the tables measured on both: the time on the one
carried to the other, by rates that both achieve and by forecasts of both, of which the destination
is left out; beside them the time kept as it is. Errors are means of |carried / measured - 1| over
pairs, by class; `worse_than_kept` counts pairs on which a way is worse than keeping times.

`interval_*` tests intervals: of each pair, carried the way that predictions take, the share of
shapes whose measured time lies within, and whether that of the pair's sum does. Once the interval
is the class's of `cost.spreads`; once it is the mean error of those pairs that have neither device
(`held_back`), so that nothing of the pair is in it.

    python benchmarks/accuracy/kernel_pairs.py --json
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402
from paceline.cluster import Device  # noqa: E402
from paceline.cluster.files import device  # noqa: E402
from paceline.cost.forecast import Constants, forecast_both, sheet_of  # noqa: E402
from paceline.cost.forecast.efforts import effort_of  # noqa: E402
from paceline.cost.forecast.fitting import Sample, fit  # noqa: E402
from paceline.cost.forecast.sampled_works import WORKS, works_in  # noqa: E402
from paceline.cost.forecast.tables import samples  # noqa: E402
from paceline.cost.ported import Kernels, by_rates_ns  # noqa: E402
from paceline.cost.ported.shares import BY_FORECAST, NEAR  # noqa: E402
from paceline.cost.spreads import CARRIED_FLOAT32, spread_of  # noqa: E402
from paceline.graph import Basis, DType  # noqa: E402
from paceline.graph.work import (  # noqa: E402
    Family,
    Recorded,
    Work,
)

SHARED = Path(os.environ.get("PACELINE_SHARED", ROOT.parent / "shared"))
SHAPES = 200  # of a pair, at most
WAYS = ("kept", "rates", "forecasts")
Errors = dict[str, float]


def main() -> None:
    options = measure.parser(__doc__ or "", waits=False).parse_args()
    folder = SHARED / "data"
    if not (folder / "kernels").exists():
        sys.exit(f"no data in {folder}/kernels; set PACELINE_SHARED to what holds data/kernels")
    folders = ("tables",) if options.quick else ("kernels", "tables")
    found = figures([folder / name for name in folders])
    measure.report("accuracy/kernel_pairs", found, options)


def figures(folders: Sequence[Path]) -> dict[str, Any]:
    rows = [row for folder in folders for row in rows_of(folder)]
    found: dict[str, Any] = {}
    for task in dict.fromkeys(row["task"] for row in rows):
        mine = [row for row in rows if row["task"] == task]
        found[f"carried_{task}"] = {
            way: round(float(np.mean([row[way] for row in mine])), 4) for way in WAYS
        }
        found[f"carried_{task}"]["pairs"] = len(mine)
        found[f"carried_{task}"]["worse_than_kept"] = {
            way: sum(row[way] > row["kept"] for row in mine) for way in WAYS[1:]
        }
        found[f"interval_{task}"] = intervals([row.pop("pair") for row in mine])
    return {**found, "rows": rows}


@dataclass(frozen=True, eq=False)
class Carried:
    """Shapes of one pair, carried the way that predictions take, over measured."""

    devices: frozenset[str]
    spread: float  # of its class
    ratio: np.ndarray
    sums: float

    @property
    def error(self) -> float:
        return float(np.abs(self.ratio - 1).mean())


def intervals(pairs: Sequence[Carried]) -> dict[str, Any]:
    """How often an interval holds what was measured, shape by shape and of whole pairs."""
    told = [one.spread for one in pairs]
    others = [[o.error for o in pairs if not o.devices & one.devices] for one in pairs]
    held = [float(np.mean(errors)) if errors else None for errors in others]
    return {"of_its_class": held_share(pairs, told), "held_back": held_share(pairs, held)}


def held_share(pairs: Sequence[Carried], spreads: Sequence[float | None]) -> dict[str, Any]:
    """Pairs without an interval, where no two other devices were measured, are left out."""
    judged = [(one, 1 + spread) for one, spread in zip(pairs, spreads) if spread is not None]
    if not judged:
        return {"pairs": 0}
    shapes = [((one.ratio >= 1 / wide) & (one.ratio <= wide)).mean() for one, wide in judged]
    sums = [1 / wide <= one.sums <= wide for one, wide in judged]
    return {
        "pairs": len(judged),
        "spread": round(float(np.mean([wide - 1 for _, wide in judged])), 4),
        "shapes_inside": round(float(np.mean(shapes)), 4),
        "sums_inside": int(np.sum(sums)),
    }


def rows_of(folder: Path) -> Iterator[dict[str, Any]]:
    for key, taken in samples(folder).items():
        task, dtype, _ = key.split(".")
        if task not in WORKS:
            continue
        for one in taken:
            others = [sample for sample in taken if sample.device != one.device]
            if not others:
                continue
            constants = Constants({key: fit(others, effort_of(key), known=False)})
            for origin in others:
                if (pair := Pair.of(task, origin, one)) is not None:
                    told = pair.carried(constants)
                    errors = {way: round(error, 4) for way, error in pair.errors(told).items()}
                    yield {"task": f"{task}.{dtype}", "from": origin.device, "to": one.device,
                           "shapes": len(pair.here_ns), **errors,
                           "pair": pair.judged(told)}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Pair:
    """Shapes that were measured on two devices."""

    works: Sequence[Work]
    here_ns: np.ndarray
    there_ns: np.ndarray
    origin: Device
    destination: Device

    @staticmethod
    def of(task: str, origin: Sample, destination: Sample) -> "Pair | None":
        columns = [_shapes(each) for each in (origin, destination)]
        there = {tuple(row): at for at, row in enumerate(columns[1].tolist())}
        found = [
            (at, there[tuple(row)])
            for at, row in enumerate(columns[0].tolist())
            if tuple(row) in there
        ]
        if len(found) < SHAPES // 4:
            return None
        chosen = np.random.default_rng(0).permutation(len(found))[:SHAPES]
        here_at, there_at = np.array(found)[chosen].T
        works = works_in(task, origin.rows(here_at))
        return Pair(
            works, origin.seconds[here_at] * 1e9, destination.seconds[there_at] * 1e9,
            preset(origin.device), preset(destination.device),
        )  # fmt: skip

    def carried(self, constants: Constants) -> Mapping[str, np.ndarray]:
        """Nanoseconds there by each way."""
        kernels = Kernels(
            np.rint(self.here_ns).astype(np.int64), np.arange(len(self.works)),
            np.ones(len(self.works)), [Recorded("", work) for work in self.works],
        )  # fmt: skip
        rates = by_rates_ns(kernels, self.origin, self.destination)
        sheets = sheet_of(self.origin), sheet_of(self.destination)
        both = forecast_both(self.works, *sheets, constants)
        near = (self.here_ns < NEAR * both.here_ns) & (self.here_ns * NEAR > both.here_ns)
        forecasts = np.where(near, self.here_ns * both.there_ns / both.here_ns, rates)
        return {"kept": self.here_ns, "rates": rates, "forecasts": forecasts}

    def errors(self, told: Mapping[str, np.ndarray]) -> Errors:
        return {way: float(np.abs(ns / self.there_ns - 1).mean()) for way, ns in told.items()}

    def judged(self, told: Mapping[str, np.ndarray]) -> Carried:
        """By the way that predictions take."""
        family = self.works[0].family
        ns = told["forecasts" if family in BY_FORECAST else "rates"]
        return Carried(
            frozenset((self.origin.name, self.destination.name)), _spread(self.works[0]),
            ns / self.there_ns, float(ns.sum() / self.there_ns.sum()),
        )  # fmt: skip


def _spread(work: Work) -> float:
    """What a prediction would say of it."""
    if work.family is Family.MATRIX and work.dtype is DType.FLOAT32:
        return CARRIED_FLOAT32
    return spread_of(Basis.SCALED, work.family)


def _shapes(sample: Sample) -> np.ndarray:
    """Dimensions, whatever library ran them."""
    dims = sample.question.dims
    return np.stack([column for name, column in dims.items() if name != "library"], axis=1)


def preset(name: str) -> Device:
    plain = name.removesuffix("_sxm").replace("_", "-")
    return device({"a100": "a100-80"}.get(plain, plain))


if __name__ == "__main__":
    main()
