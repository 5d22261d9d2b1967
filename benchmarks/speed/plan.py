"""How long a hybrid plan takes to find, how far it is from exhaustive, and how well it chooses.

Speed: 175 billion parameters on 1,024 A100 and two mixtures of experts on 512 H100, whole answers
(every plan considered, Pareto set, reasons). Beside it the same search without bounds, on spaces
small enough to replay every plan that fits: the gap between their best steps, and the time that
bounds save.

Choice: vTrain's measured jobs (the published half), in groups of the same model, GPUs and batch at
different degrees. Within each the plan that is predicted to be fastest is taken; its regret is how
much longer its measured time is than the best one's. Nothing is calibrated on these rows. `--test
FOLDER` judges another folder with the same file names.
"""

import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402
from paceline.cluster import from_document  # noqa: E402
from paceline.cost.decoder import DecoderPrices, Site, site_of  # noqa: E402
from paceline.imagine.decoder import (  # noqa: E402
    EARLY_MEGATRON,
    Decoder,
    DecoderJob,
    GroupedQuery,
    Precision,
    Recipe,
    Sharding,
    decoder,
)
from paceline.imagine.transformer import Degrees, Recompute  # noqa: E402
from paceline.place.hybrid import PlanQuestion, plan, price, search, spelled  # noqa: E402

SHARED = Path(os.environ.get("PACELINE_SHARED", ROOT.parent / "shared"))
LARGE = {
    "gpt3-175b on 1,024 A100": ("gpt3-175b", "dgx-a100", 1024, 1536, "bf16"),
    "qwen3-235b-a22b on 512 H100": ("qwen3-235b-a22b", "dgx-h100", 512, 2048, "bf16"),
    "deepseek-v3 on 512 H100": ("deepseek-v3", "dgx-h100", 512, 4096, "fp8-cs"),
}
SMALL = {
    "llama2-7b on 8 A100": ("llama2-7b", "dgx-a100", 8, 64, "bf16"),
    "llama3-8b on 16 H100": ("llama3-8b", "dgx-h100", 16, 64, "bf16"),
    "qwen3-30b-a3b on 16 H100": ("qwen3-30b-a3b", "dgx-h100", 16, 128, "bf16"),
    "gpt3-20b on 32 A100": ("gpt3-20b", "dgx-a100", 32, 128, "bf16"),
}


@dataclass(frozen=True)
class Measured:
    """One measured job of vTrain's."""

    job: DecoderJob
    gpus: int
    ms: float

    @property
    def group(self) -> tuple[object, ...]:
        return self.job.model, self.gpus, self.job.recipe.global_batch, self.job.sequence


def main() -> None:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--test", type=Path, metavar="FOLDER", help="judge this folder's jobs")
    options = parser.parse_args()
    folder = options.test or SHARED / "data" / "vtrain"
    large = dict(list(LARGE.items())[: 1 if options.quick else None])
    small = dict(list(SMALL.items())[: 1 if options.quick else None])
    speeds = (
        {} if options.test else {name: timed(question(*given)) for name, given in large.items()}
    )
    gaps = (
        {} if options.test else {name: compared(question(*given)) for name, given in small.items()}
    )
    figures: dict[str, Any] = {
        "searches": speeds,
        "seconds": max((one["seconds"] for one in speeds.values()), default=None),
        "exhausted": gaps,
        "gap_to_exhaustive": max((one["gap"] for one in gaps.values()), default=None),
    }
    if folder.exists():
        figures |= chosen(jobs(folder, 5 if options.quick else 1))
    else:
        figures["regret"] = f"no data in {folder}; set PACELINE_SHARED"
    measure.report("speed/plan", figures, options)


def question(model: str, system: str, gpus: int, batch: int, precision: str) -> PlanQuestion:
    cluster = from_document({"hosts": {"system": system}}).with_workers(gpus)
    return PlanQuestion(decoder(model), site_of(cluster), batch, precision=Precision(precision))


def timed(asked: PlanQuestion) -> dict[str, Any]:
    began = time.perf_counter()
    planned = plan(asked)
    seconds = time.perf_counter() - began
    found = planned.search
    return {
        "seconds": round(seconds, 2),
        "considered": found.considered,
        "do_not_fit": len(found.oversized),
        "replayed": len(found.priced),
        "best": spelled(planned.best.job),
        "step_s": round(planned.best.step_ns / 1e9, 3),
    }


def compared(asked: PlanQuestion) -> dict[str, Any]:
    """With bounds and without, in turns."""
    found: dict[bool, Any] = {}
    seconds: dict[bool, float] = {}
    search(asked)  # both find skeletons and forecasts known
    for prune in (True, False):
        began = time.perf_counter()
        found[prune] = search(asked, prune=prune)
        seconds[prune] = round(time.perf_counter() - began, 2)
    best, least = found[True].best.step_ns, found[False].best.step_ns
    fronts = [[(p.step_ns, p.peak.total) for p in one.front] for one in found.values()]
    return {
        "gap": round(best / least - 1, 6),
        "same_front": fronts[0] == fronts[1],
        "seconds": seconds[True],
        "exhaustive_seconds": seconds[False],
        "replayed": len(found[True].priced),
        "exhaustive_replayed": len(found[False].priced),
    }


def jobs(folder: Path, every: int) -> list[Measured]:
    found: list[Measured] = []
    for name, recompute in (("single", Recompute.NONE), ("multi", Recompute.FULL)):
        path = folder / f"ground_truth_{name}.csv"
        if path.exists():
            table = np.genfromtxt(path, delimiter=",", skip_header=1)[:, -11:]
            found += [_measured(row, recompute) for row in table]
    return found


def _measured(row: Sequence[float], recompute: Recompute) -> Measured:
    gpus, batch, micro, hidden, heads, layers, seq, t, d, p = (int(cell) for cell in row[:10])
    model = Decoder(
        "gpt", layers, hidden, 51200, GroupedQuery(heads, heads, hidden // heads), 4 * hidden,
        gated=False, tied=True, positions=seq, sequence=seq,
    )  # fmt: skip
    recipe = Recipe(
        batch, micro, precision=Precision.FP16, sharding=Sharding.NONE, recompute=recompute,
        habits=EARLY_MEGATRON,
    )  # fmt: skip
    return Measured(DecoderJob(model, Degrees(d, t, p), recipe), gpus, float(row[10]))


def chosen(found: Sequence[Measured]) -> dict[str, Any]:
    groups: dict[tuple[object, ...], list[Measured]] = defaultdict(list)
    for one in found:
        groups[one.group].append(one)
    several = [group for group in groups.values() if len(group) > 1]
    regrets, spreads = [], []
    off = []
    for group in several:
        times = [price(one.job, DecoderPrices(_site(one.gpus))).step_ns / 1e6 for one in group]
        off += [ms / one.ms - 1 for ms, one in zip(times, group)]
        best = min(one.ms for one in group)
        regrets.append(group[int(np.argmin(times))].ms / best - 1)
        spreads.append(statistics.mean(one.ms for one in group) / best - 1)
    return {
        "regret_mean": round(statistics.mean(regrets), 4),
        "regret_worst": round(max(regrets), 4),
        "regret_by_chance": round(statistics.mean(spreads), 4),
        "groups": len(several),
        "rows": sum(map(len, several)),
        "mape": round(float(np.abs(off).mean()), 4),
    }


@cache
def _site(gpus: int) -> Site:
    hosts: Mapping[str, Any] = {
        "device": "a100-80", "devices": 8, "fabric": "nvlink-3", "nics": 4,
        "link": "infiniband-hdr", "count": -(-gpus // 8),
    }  # fmt: skip
    return site_of(from_document({"hosts": hosts}), gpus)


if __name__ == "__main__":
    main()
