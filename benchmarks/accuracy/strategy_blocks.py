"""Steps under plans beside plain ones, measured in the lab and kept.

In each setting one job trains in blocks, plain and under some plans in turn (`jobs/blocks.py`), so
that all are measured in the same minutes.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy.cells import DATE, FIRST, cluster
from benchmarks.accuracy.settings import JOBS
from benchmarks.accuracy.strategy_plans import SEED, Cell, Row, Wanted, in_turn, settles_in
from benchmarks.accuracy.strategy_recordings import predicted
from benchmarks.floors import floor_of
from paceline.errors import PacelineError
from paceline.lab import Lab, LabError, WorkerError

TOGETHER = 5  # plans whose blocks take turns in one job
LEAST, MOST = 3, 10  # steps in a block
ROUNDS = 2
BLOCK_S = 1.0  # of steps in a block, about
WARM = 2
TIMEOUT_S = 900

Facts = dict[str, Any]
Kept = dict[str, Facts]


def measure_missing(rows: Sequence[Row], end: float) -> None:
    """What is not yet kept, a few plans of one cell at a time."""
    while time.monotonic() < end:
        found = kept(rows[0][0].kept)
        told = [plan for cell, plan in rows if "step_s" in found.get(cell.key(plan), {})]
        left = in_turn((row for row in rows if row[0].key(row[1]) not in found), told)
        if not left:
            return
        cell = left[0][0]
        plans = [plan for each, plan in left if each == cell][:TOGETHER]
        _write({**found, **dict(_measured(cell, plans))}, cell.kept)


def _measured(cell: Cell, plans: Sequence[Wanted]) -> Iterator[tuple[str, Facts]]:
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
    except (LabError, subprocess.SubprocessError) as error:
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
    steps = max(LEAST, min(MOST, round(BLOCK_S / (predicted(cell, ()).step_ns / 1e9))))
    warm = max(WARM, settles_in(plan))
    return Block(plan, whole * -(-warm // whole), whole * -(-steps // whole))


def _period(cell: Cell, plan: Wanted) -> int:
    """Steps of the script after which the job repeats itself."""
    facts = predicted(cell, plan).timeline.graph.facts
    return facts.period * max(1, round(facts.samples))


def _turns(blocks: Sequence[Block], plain: Block) -> list[Facts]:
    """In each round every plan once, in random order, a plain block before every second one."""
    draw = random.Random(SEED)
    found: list[Block] = []
    for _ in range(ROUNDS):
        for place, block in enumerate(draw.sample(blocks, len(blocks))):
            found += [plain] * (place % 2 == 0) + [block]
    return [asdict(block) for block in [*found, plain]]


def _trained(cell: Cell, blocks: Sequence[Facts]) -> list[Facts]:
    """The job; once more where a worker was aborted in gloo's own shutdown."""
    trained = _on_links if cell.mbit else _on_one_host
    try:
        return trained(cell, blocks)
    except (WorkerError, subprocess.CalledProcessError):
        return trained(cell, blocks)


def _on_links(cell: Cell, blocks: Sequence[Facts]) -> list[Facts]:
    with tempfile.TemporaryDirectory() as folder, Lab(cluster(cell.workers, cell.mbit)) as lab:
        command, out = _command(cell, blocks, Path(folder))
        lab.run([*FIRST, sys.executable, *command], timeout_s=TIMEOUT_S, logs=Path(folder))
        return list(json.loads(out.read_text()))


def _on_one_host(cell: Cell, blocks: Sequence[Facts]) -> list[Facts]:
    with tempfile.TemporaryDirectory() as folder:
        command, out = _command(cell, blocks, Path(folder))
        torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", str(cell.workers))
        subprocess.run(
            [*FIRST, sys.executable, *torchrun, *command],
            check=True, capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        return list(json.loads(out.read_text()))


def _command(cell: Cell, blocks: Sequence[Facts], folder: Path) -> tuple[list[str], Path]:
    asked, out = folder / "blocks.json", folder / "out.json"
    asked.write_text(json.dumps(blocks))
    job = ["--model", cell.job.model, "--parallel", cell.job.parallel]
    return [str(JOBS / "blocks.py"), *job, "--blocks", str(asked), "--out", str(out)], out


def _step_s(turn: Facts) -> float:
    """Of a block; the mean, for steps of a period differ by design."""
    return statistics.mean(turn["step_s"])


def _row(mine: Sequence[Facts], plain: Sequence[float]) -> Facts:
    refused = [turn["refused"] for turn in mine if "refused" in turn]
    if refused:
        return {"refused": refused[0]}
    return {
        "step_s": measure.spread([_step_s(turn) for turn in mine]),
        "plain_s": measure.spread(list(plain)),
        "floor": floor_of(plain, taken=len(mine)),
        "sent": mine[0]["sent"],
    }


def _said(cell: Cell, plan: Wanted, facts: Facts) -> Facts:
    """With its moment; and to the terminal."""
    told = str(facts)
    if "step_s" in facts:
        changed, plain = (1e3 * facts[name]["median"] for name in ("step_s", "plain_s"))
        told = f"{changed:.1f} beside {plain:.1f} ms plain, floor {facts['floor']:.3f}"
    print(f"{cell.key(plan)}: {told}", file=sys.stderr, flush=True)
    moment = datetime.now(timezone.utc).strftime(DATE)
    return {**facts, "load": round(os.getloadavg()[0], 2), "measured": moment}


def kept(rows: str = "strategies") -> Kept:
    """Of a set of rows."""
    file = _file(rows)
    return json.loads(file.read_text()) if file.exists() else {}


def forget(keys: Iterable[str], rows: str) -> None:
    """Rows that are to be measured anew."""
    gone = set(keys)
    _write({key: row for key, row in kept(rows).items() if key not in gone}, rows)


def _write(found: Kept, rows: str) -> None:
    _file(rows).parent.mkdir(parents=True, exist_ok=True)
    _file(rows).write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")


def _file(rows: str) -> Path:
    return measure.RESULTS / f"{rows}-measured.json"
