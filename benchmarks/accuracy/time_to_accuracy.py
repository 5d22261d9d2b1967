"""Training time to equal test accuracy with a parameter server, under loss: TCP and the transport.

Four workers and a server on five hosts of a lab, every port with a short queue; Fashion-MNIST,
several seeds. All contenders train the same number of steps; the time counts until the accuracy is
first reached that every one of a seed's runs reaches. Times are of steps, without the looks at the
accuracy.

`speedup_*` is the time of the best tuned TCP, by gloo or on sockets of its own, over that of the
transport with a bounded loss. That TCP's workers push, then pull; the transport does both at once,
part by part. `gloo_*` is the same against the best of gloo alone. `overlap_*` is the same against
the best tuned TCP that is given the very same overlap, so it is what the transport itself brings;
`pacing_*` is that of the transport with no loss allowed. `serial_*` compares the transport without
the overlap with TCP without.

One row is one contender under one loss with one seed; all contenders of a seed and a loss train one
after the other. Rows are kept as they come and the next run goes on behind them; figures count the
seeds whose rows are all there (`seeds_*`).
Beside other programs run it at real-time priority, which every contender then has.

    chrt -r 10 python benchmarks/accuracy/time_to_accuracy.py --json --budget 30
"""

import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import kept, measure
from paceline.lab import Lab
from paceline.lab.incast import Setting, hosts_told
from paceline.wire.contenders import GLOO, LOSSLESS, TCP, TEN_PERCENT, Contender, overlapped

WORKER = Path(__file__).parent / "jobs" / "served_training.py"
DATA = Path(__file__).parents[3] / "shared" / "data" / "fashion-mnist"
SEEDS = (1, 2, 3)
TCP_TOO = tuple(map(overlapped, TCP))
NO_LOSS, BOUNDED = overlapped(LOSSLESS), overlapped(TEN_PERCENT)
CONTENDERS = (*TCP, *GLOO, *TCP_TOO, NO_LOSS, BOUNDED, TEN_PERCENT)
LOSSES = {"1pct": (0.01, 0), "5pct": (0.05, 4)}
"""Share of packets that a way loses, and for how many ms all are then lost."""
BASE = Setting(senders=4)

Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> None:
    parser = measure.parser(__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of Fashion-MNIST")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--budget", type=float, default=120.0, metavar="MINUTES")
    parser.add_argument("--width", type=int, default=128, help="of the hidden layer")
    options = parser.parse_args(arguments)
    if not options.data.is_dir():
        parser.error(f"{options.data} is no folder; give that of Fashion-MNIST's files by --data")
    steps = 60 if options.quick else options.steps
    job = {"data": str(options.data), "steps": steps, "width": options.width}
    cases = list(planned(SEEDS[:1] if options.quick else SEEDS))
    makers = {case.name(job): partial(trained, case, job) for case in cases}
    minutes = 5.0 if options.quick else options.budget
    rows = list(kept.rows("time-to-accuracy", makers, minutes).values())
    measure.report("accuracy/time_to_accuracy", figures(rows), options, "torch")


@dataclass(frozen=True)
class Case:
    """One training: who sends, what the network loses, from which seed."""

    contender: Contender
    loss: str
    seed: int

    def name(self, job: dict[str, Any]) -> str:
        told = f"{job['steps']} steps, width {job['width']}"
        return f"{self.loss}, seed {self.seed}, {self.contender.name}, {told}"

    def setting(self) -> Setting:
        loss, burst_ms = LOSSES[self.loss]
        return replace(BASE, loss=loss, loss_burst_ms=burst_ms)


def planned(seeds: Sequence[int]) -> Iterator[Case]:
    """Contenders next to each other, so that they meet the same minutes of the machine."""
    for seed in seeds:
        for loss in LOSSES:
            yield from (Case(contender, loss, seed) for contender in CONTENDERS)


def trained(case: Case, job: dict[str, Any]) -> Row:
    setting = case.setting()
    told = {
        **job, "seed": case.seed, "every": 10, "batch": 64, "rate": 0.05, "port": 29_700,
        "contender": asdict(case.contender), "link_bits_per_s": setting.bits_per_s,
        "window_bytes": setting.queue_bytes * 3 // 4,
    }  # fmt: skip
    with Lab(setting.cluster(), stack=setting.stack()) as lab:
        found = run(lab, told)
    return {"contender": case.contender.name, "loss": case.loss, "seed": case.seed, **found}


def run(lab: Lab, told: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="paceline-served-") as folder:
        file = Path(folder, "training.json")
        file.write_text(json.dumps(told))
        finished = lab.run(
            [sys.executable, str(WORKER), str(file)],
            environment=hosts_told(lab.layout), logs=Path(folder), timeout_s=1800,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(finished.answer(0))
        return found


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for loss in LOSSES:
        mine = whole_seeds([row for row in rows if row["loss"] == loss])
        told[f"seeds_{loss}"] = len({row["seed"] for row in mine})
        if mine:
            told |= {f"{name}_{loss}": value for name, value in compared(mine).items()}
    real_time = os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)
    return told | {"real_time": real_time, "rows": list(rows)}


def whole_seeds(rows: Sequence[Row]) -> list[Row]:
    """Rows of the seeds that every contender has trained."""
    count = Counter(row["seed"] for row in rows)
    return [row for row in rows if count[row["seed"]] == len(CONTENDERS)]


def compared(rows: Sequence[Row]) -> dict[str, Any]:
    """One loss: the transport against the best of TCP, with the overlap and without."""
    timed = [row | {"to_target": to_target(row, target(rows, row["seed"]))} for row in rows]
    times = {c.name: statistics.mean(_of(timed, c, "to_target")) for c in CONTENDERS}
    best, gloo, also = (
        min(them, key=lambda c: times[c.name]) for them in ((*TCP, *GLOO), GLOO, TCP_TOO)
    )
    final = {c: 100 * statistics.mean(_of(timed, c, "final")) for c in (best, BOUNDED)}
    return {
        "speedup": times[best.name] / times[BOUNDED.name],
        "gloo": times[gloo.name] / times[BOUNDED.name],
        "overlap": times[also.name] / times[BOUNDED.name],
        "pacing": times[also.name] / times[NO_LOSS.name],
        "serial": times[best.name] / times[TEN_PERCENT.name],
        "best_tcp": [best.name, gloo.name, also.name],
        "lost_share": statistics.mean(_of(timed, BOUNDED, "lost_share")),
        "points": final[best] - final[BOUNDED],
    }


def _of(rows: Sequence[Row], contender: Contender, what: str) -> list[float]:
    mine = [row for row in rows if row["contender"] == contender.name]
    if what == "final":  # the mean of the last looks: one alone is noisy
        return [statistics.mean(row["accuracies"][-3:]) for row in mine]
    return [row[what] for row in mine]


def target(rows: Sequence[Row], seed: int) -> float:
    """The best accuracy that every contender of this seed reaches."""
    return min(max(row["accuracies"]) for row in rows if row["seed"] == seed)


def to_target(row: Row, accuracy: float) -> float:
    reached = next(n for n, value in enumerate(row["accuracies"]) if value >= accuracy)
    return float(row["seconds"][reached])


if __name__ == "__main__":
    main()
