"""Predicted against measured step of each strategy alone, and of pairs, in the lab.

Three models, 2 and 4 workers on this machine's cores, 100 Mbit/s and 1 Gbit/s. Each model is
recorded once, with 2 workers at 1 Gbit/s; every row is predicted from that. In each setting one job
trains in blocks, plain and under each strategy in turn (`jobs/blocks.py`), so that both are
measured in the same minutes. `floor` is what chance alone lets a row be off by, from how much plain
blocks differ among themselves; `plain_error` is that of the prediction without the strategy. Where
a strategy takes several steps to an exchange, the mean step counts.

What is measured is kept in `benchmarks/results/strategies-measured.json`, and recordings in
`benchmarks/results/strategies`, so that an ended run goes on where it was and predictions can be
made again. `--budget MINUTES` ends the measuring; `--only NAME` and `--fresh` choose and repeat.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from functools import cache
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy import calibrated
from benchmarks.accuracy.cells import DATE, FIRST, cluster
from benchmarks.accuracy.settings import Setting, record
from benchmarks.floors import counted, floor_of, told_apart
from paceline.errors import PacelineError
from paceline.graph import Graph, load_graph, save_graph
from paceline.graph.condense import Grain
from paceline.graph.variants import Ratio
from paceline.lab import Lab, LabError, WorkerError
from paceline.measure import Calibration
from paceline.measure.recorded_calls import recorded_job
from paceline.measure.torch_ratios import job_ratios
from paceline.predict import Prediction, Question, predict
from paceline.strategies import Plan, StrategyError, kind_of, known, parse

JOB = Path(__file__).parent / "jobs" / "blocks.py"
KEPT = measure.RESULTS / "strategies-measured.json"
GRAPHS = measure.RESULTS / "strategies"

MODELS = ("mlp", "resnet20", "transformer")
PLACES = ((2, 1000), (2, 100), (4, 1000), (4, 100))
SEED = 12
PAIRS = 30
TOGETHER = 5  # strategies whose blocks take turns in one job
LEAST, MOST = 3, 10  # steps in a block
ROUNDS = 2
BLOCK_S = 1.0  # of steps in a block, about
WARM = 2
ASKED = 0.12  # of each row
BEYOND_NOISE = 0.04  # gains and losses whose sign must be right

SETTINGS = {
    "accumulate": "accumulate(steps=4)",
    "adaptive_topk": "adaptive_topk(ratios=(0.01,))",
    "buckets": "buckets(size_bytes=1048576)",
    "checkpoint": "checkpoint(layers='*')",
    "dgc": "dgc(warmup=0)",
    "diloco": "diloco(period=8)",
    "factored": "factored(rank=64)",
    "hierarchical": "hierarchical(on_host=2)",
    "local_sgd": "local_sgd(period=4)",
    "overlap_local_sgd": "overlap_local_sgd(period=4)",
    "partition": "partition(parts=4)",
    "random_block": "random_block(ratio=0.1)",
}
"""Strategies whose defaults are none, or are too long for a block; others stand for themselves."""

NOT_HERE = {
    "batch": "the job makes its batches itself",
    "border_topk": "the job is no pipeline",
    "data_workers": "the job makes its batches itself",
    "prefetch": "the job makes its batches itself",
    "cache": "the job makes its batches itself",
    "format": "the job makes its batches itself",
    "fused_step": "workers of the lab stand for hosts that share no memory",
    "keep_gathered": "the job is none of FSDP2",
    "overlapped_products": "the job has no tensor-parallel layers",
    "offload_activations": "it moves what lies on a device",
}

Row = dict[str, Any]
Kept = dict[str, Row]


@dataclass(frozen=True)
class Cell:
    """A job and where it runs."""

    model: str
    workers: int
    mbit: int

    def key(self, plan: Sequence[str]) -> str:
        return f"{self.model} x{self.workers} {self.mbit} Mbit/s: {' + '.join(plan)}"


Wanted = tuple[str, ...]  # a plan, its strategies as text


def main() -> None:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--budget", type=float, default=20.0, metavar="MINUTES")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--pairs", action="store_true", help="pairs of strategies, not single ones")
    parser.add_argument("--fresh", action="store_true", help="record and measure everything anew")
    options = parser.parse_args()
    if options.fresh:
        KEPT.unlink(missing_ok=True)
    plans = pairs() if options.pairs else singles(options.only)
    cells = [Cell(m, *place) for m in MODELS for place in PLACES][: 1 if options.quick else None]
    measure_missing(cells, plans, time.monotonic() + 60 * options.budget)
    measure.report("accuracy/strategies", figures(cells, options), options, "torch")


def singles(only: Sequence[str] = ()) -> list[Wanted]:
    """Every strategy that can be applied to these jobs, alone."""
    names = [name for name in known() if kind_of(name).applies and name not in NOT_HERE]
    return [(SETTINGS.get(name, name),) for name in names if not only or name in only]


def pairs() -> list[Wanted]:
    """Some that do not exclude each other, drawn with a fixed seed."""
    both = [one + other for one, other in combinations(singles(), 2)]
    random.Random(SEED).shuffle(both)
    return list(islice((pair for pair in both if _at_peace(pair)), PAIRS))


def _at_peace(pair: Wanted) -> bool:
    try:
        Plan(tuple(parse(text) for text in pair))
    except StrategyError:
        return False
    return True


def measure_missing(cells: Sequence[Cell], plans: Sequence[Wanted], end: float) -> None:
    """What is not yet kept, a few plans of one cell at a time, in a fixed random order."""
    jobs = [
        (cell, plans[i : i + TOGETHER]) for cell in cells for i in range(0, len(plans), TOGETHER)
    ]
    random.Random(SEED).shuffle(jobs)
    for cell, some in jobs:
        missing = [plan for plan in some if cell.key(plan) not in _kept()]
        if missing and time.monotonic() < end:
            _keep(dict(_measured(cell, missing)))


def _measured(cell: Cell, plans: Sequence[Wanted]) -> Iterator[tuple[str, Row]]:
    """One job in blocks: each plan in each round, plain blocks between them."""
    fitting: list[Block] = []
    for plan in plans:
        try:
            fitting.append(_block(cell, plan))
        except PacelineError as error:
            yield cell.key(plan), _said(cell, plan, {"refused": str(error)})
    if not fitting:
        return
    try:
        done = _trained(cell, _turns(fitting, _block(cell, ())))
    except LabError as error:
        for block in fitting:
            yield cell.key(block.plan), _said(cell, block.plan, {"failed": str(error)[-600:]})
        return
    plain = [_step_s(turn) for turn in done if not turn["plan"]]
    for block in fitting:
        mine = [turn for turn in done if tuple(turn["plan"]) == block.plan]
        yield cell.key(block.plan), _said(cell, block.plan, _row(mine, plain))


@dataclass(frozen=True)
class Block:
    """Steps under a plan, in whole periods of it."""

    plan: Wanted
    warm: int
    steps: int


def _block(cell: Cell, plan: Wanted) -> Block:
    """As many steps as the prediction of a plain one suggests."""
    whole = 1 if not plan else _period(cell, plan)
    steps = max(LEAST, min(MOST, round(BLOCK_S / (_predicted(cell, ()).step_ns / 1e9))))
    return Block(plan, whole * -(-WARM // whole), whole * -(-steps // whole))


def _period(cell: Cell, plan: Wanted) -> int:
    """Steps of the script after which the job repeats itself."""
    facts = _predicted(cell, plan).timeline.graph.facts
    return facts.period * round(facts.samples)


def _turns(blocks: Sequence[Block], plain: Block) -> list[Row]:
    """In each round every plan once, in random order, a plain block before every second one."""
    draw = random.Random(SEED)
    found: list[Block] = []
    for _ in range(ROUNDS):
        for place, block in enumerate(draw.sample(blocks, len(blocks))):
            found += [plain] * (place % 2 == 0) + [block]
    return [asdict(block) for block in [*found, plain]]


def _trained(cell: Cell, blocks: Sequence[Row]) -> list[Row]:
    """The job; once more where a worker was aborted in gloo's own shutdown."""
    try:
        return _trained_once(cell, blocks)
    except WorkerError:
        return _trained_once(cell, blocks)


def _trained_once(cell: Cell, blocks: Sequence[Row]) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, Lab(cluster(cell.workers, cell.mbit)) as lab:
        asked, out = Path(folder) / "blocks.json", Path(folder) / "out.json"
        asked.write_text(json.dumps(blocks))
        job = (*FIRST, sys.executable, str(JOB), "--model", cell.model)
        lab.run([*job, "--blocks", str(asked), "--out", str(out)], timeout_s=900, logs=Path(folder))
        done: list[Row] = json.loads(out.read_text())
        return done


def _step_s(turn: Row) -> float:
    """Of a block; the mean, for steps of a period differ by design."""
    return statistics.mean(turn["step_s"])


def _row(mine: Sequence[Row], plain: Sequence[float]) -> Row:
    refused = [turn["refused"] for turn in mine if "refused" in turn]
    if refused:
        return {"refused": refused[0]}
    return {
        "step_s": measure.spread([_step_s(turn) for turn in mine]),
        "plain_s": measure.spread(list(plain)),
        "floor": floor_of(plain, taken=len(mine)),
        "sent": mine[0]["sent"],
    }


def _said(cell: Cell, plan: Wanted, row: Row) -> Row:
    """With its moment; and to the terminal."""
    told = str(row)
    if "step_s" in row:
        changed, plain = (1e3 * row[name]["median"] for name in ("step_s", "plain_s"))
        told = f"{changed:.1f} beside {plain:.1f} ms plain"
    print(f"{cell.key(plan)}: {told}", file=sys.stderr, flush=True)
    moment = datetime.now(timezone.utc).strftime(DATE)
    return {**row, "load": round(os.getloadavg()[0], 2), "measured": moment}


def recorded(model: str) -> tuple[Graph, Calibration]:
    """Every op of the plain job's typical step, and this machine with the job's own operators in
    other variants; recorded and measured where none is kept."""
    place, ratios = GRAPHS / model, GRAPHS / f"{model}-ratios.json"

    def seen(folder: Path) -> None:
        found = job_ratios(recorded_job(folder))
        ratios.write_text(json.dumps(msgspec.to_builtins(found)) + "\n")

    if not ratios.exists():
        GRAPHS.mkdir(parents=True, exist_ok=True)
        graph, _ = record(Setting(model, "ddp", *PLACES[0]), Grain.OP, seen)
        save_graph(graph, place)
    kept = msgspec.convert(json.loads(ratios.read_text()), tuple[Ratio, ...])
    return load_graph(place), replace(calibrated.here(), ratios=kept)


def figures(cells: Sequence[Cell], options: argparse.Namespace) -> dict[str, Any]:
    """Errors over what is kept: of single strategies, and of pairs."""
    found: dict[str, Any] = {}
    for name, plans in (("", singles(options.only)), ("pairs_", pairs())):
        rows = list(_rows(cells, plans))
        good = [row for row in rows if "error" in row]
        found[f"{name}rows_asked"] = len(cells) * len(plans)
        found[f"{name}rows"] = rows
        judged = told_apart(good, ASKED)[0]
        if judged:
            found |= {f"{name}{key}": value for key, value in _errors(judged).items()}
            fitting = len(cells) * len(plans) - sum("refused" in row for row in rows)
            found[f"{name}share_judged"] = round(len(judged) / fitting, 3)
        if good and not name:
            found |= counted(good, ASKED)
    return found


def _errors(rows: Sequence[Row]) -> dict[str, Any]:
    worst = max(rows, key=lambda row: abs(row["error"]))
    judged = [row for row in rows if abs(row["measured_gain"]) > BEYOND_NOISE]
    names = sorted({row["plan"] for row in rows})
    return {
        "mean_error": round(statistics.mean(abs(row["error"]) for row in rows), 4),
        "worst_error": round(abs(worst["error"]), 4),
        "worst_row": {key: worst[key] for key in ("plan", "model", "workers", "mbit", "error")},
        "sign_right": all(row["measured_gain"] * row["predicted_gain"] > 0 for row in judged),
        "signs_judged": len(judged),
        "plain_mean_error": round(statistics.mean(abs(row["plain_error"]) for row in rows), 4),
        "mean_error_by_plan": {
            name: round(statistics.mean(abs(r["error"]) for r in rows if r["plan"] == name), 4)
            for name in names
        },
    }


def _rows(cells: Sequence[Cell], plans: Sequence[Wanted]) -> Iterator[Row]:
    kept = _kept()
    for cell in cells:
        for plan in plans:
            row = kept.get(cell.key(plan))
            if row is not None:
                told = {"plan": " + ".join(plan), **vars(cell)}
                yield {**told, **(_compared(cell, plan, row) if "step_s" in row else row)}


def _compared(cell: Cell, plan: Wanted, row: Row) -> Row:
    measured, plain = 1e3 * row["step_s"]["median"], 1e3 * row["plain_s"]["median"]
    shown = {
        "measured_ms": round(measured, 2),
        "plain_ms": round(plain, 2),
        "floor": round(row["floor"], 4),
        "load": row["load"],
        "measured": row["measured"],
    }
    try:
        predicted = _predicted(cell, plan).batch_ns / 1e6
    except PacelineError as error:
        return {**shown, "refused": str(error)}
    before = _predicted(cell, ()).step_ns / 1e6
    return {
        **shown,
        "predicted_ms": round(predicted, 2),
        "predicted_plain_ms": round(before, 2),
        "error": round(predicted / measured - 1, 4),
        "plain_error": round(before / plain - 1, 4),
        "measured_gain": round(plain / measured - 1, 4),
        "predicted_gain": round(before / predicted - 1, 4),
    }


@cache
def _predicted(cell: Cell, plan: Wanted) -> Prediction:
    graph, made = recorded(cell.model)
    where = made.applied(cluster(cell.workers, cell.mbit))
    question = Question(machine=calibrated.machine(made), calibration=made)
    moved = (f"workers(count={cell.workers})",) if cell.workers != PLACES[0][0] else ()
    return predict(graph, [*moved, *plan], where, question)


def _kept() -> Kept:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def _keep(rows: Kept) -> None:
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    KEPT.write_text(json.dumps({**_kept(), **rows}, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
