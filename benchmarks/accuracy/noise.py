"""Predictions from recordings that were made beside a noisy neighbour, or on too few cores.

work: the training thread's run time of a plain step, recorded beside the noise maker (bursts on one
core, a memory hog, both) against recorded alone, in turn. retarget: the recordings made beside
noise, carried to cells that were measured without it. crowded: recorded with four workers on two
cores and carried to two, and back. Rows come in a fixed random order and are kept as they come in
`benchmarks/results/noise-rows.json`; `--budget MINUTES` ends the run there.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy import cells, elsewhere, recordings
from benchmarks.accuracy.cells import Cell
from benchmarks.accuracy.settings import Setting, record
from benchmarks.noise_maker import Kind, Noise, beside
from paceline.graph import Graph
from paceline.predict import Question, predict
from paceline.strategies import strategy

KEPT = measure.RESULTS / "noise-rows.json"
MODELS = ("mlp", "transformer", "resnet20")
CELLS = ((2, 200), (2, 500), (4, 1000), (4, 200))
SEED = 23
MIB = 1024 * 1024

Row = dict[str, Any]


def main() -> None:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--budget", type=float, default=20.0, metavar="MINUTES")
    options = parser.parse_args()
    rows = list(measured(options))
    measure.report("accuracy/noise", figures(rows), options, "torch")


def measured(options: argparse.Namespace) -> Iterator[Row]:
    """Rows that are kept, then new ones until the budget ends."""
    end = time.monotonic() + 60 * options.budget
    kept: dict[str, Row] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for name, make in planned():
        if name not in kept:
            if time.monotonic() > end:
                continue
            kept[name] = make()
            KEPT.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n")
            print(f"{name}: {kept[name]}", file=sys.stderr, flush=True)
        yield kept[name]


def planned() -> list[tuple[str, Callable[[], Row]]]:
    rows: list[tuple[str, Callable[[], Row]]] = []
    for model in MODELS:
        for number, kind in enumerate(Kind):
            noise = Noise(kind, SEED + number)
            rows.append((f"noisy {model} {kind.value}", lambda m=model, n=noise: noisy(m, n)))
        rows.append((f"crowded {model}", lambda m=model: crowded(m)))
    random.Random(SEED).shuffle(rows)
    return rows


def noisy(model: str, noise: Noise) -> Row:
    """Alone, then beside the neighbour: the run time of a step, and predictions from the second."""
    setting = Setting(model, "ddp", 2, 1000)
    alone, _ = record(setting)
    with beside(noise):
        graph, facts = record(setting)
    ran = [g.facts.plain_run_ns for g in (alone, graph)]
    errors = {f"x{w} {mbit}": _cell_error(graph, model, w, mbit) for w, mbit in CELLS}
    return {
        "kind": "noisy",
        "work_error": round(ran[1] / ran[0] - 1, 4) if all(ran) else None,
        "retarget": {name: e for name, e in errors.items() if e is not None},
        "load": facts["load"],
    }


def crowded(model: str) -> Row:
    """Four workers on two cores carried to two workers, and back."""
    made = [(setting, *record(setting)) for setting in
            (Setting(model, "ddp", 4, 1000), Setting(model, "ddp", 2, 1000))]  # fmt: skip
    machine = recordings.machine()
    there = elsewhere.row(made[0], made[1], machine)
    back = elsewhere.row(made[1], made[0], machine)
    return {"kind": "crowded", "errors": [there["error"], back["error"]]}


def _cell_error(graph: Graph, model: str, workers: int, mbit: int) -> float | None:
    """Against the cell that was measured without noise; None where none is kept."""
    cell = Cell(model, workers, mbit, 25)
    runs = cells.runs(cell)
    if not runs:
        return None
    changes = [strategy("workers", count=workers), strategy("buckets", size_bytes=25 * MIB)]
    question = Question(machine=recordings.machine())
    found = predict(graph, changes, cells.cluster(workers, mbit), question)
    return round(found.step_ns / 1e6 / cells.step_ms(runs)["median"] - 1, 4)


def figures(rows: list[Row]) -> dict[str, Any]:
    work = [abs(r["work_error"]) for r in rows if r["kind"] == "noisy" and r["work_error"]]
    carried = [abs(e) for r in rows if r["kind"] == "noisy" for e in r["retarget"].values()]
    crowd = [abs(e) for r in rows if r["kind"] == "crowded" for e in r["errors"]]
    found: dict[str, Any] = {"rows": rows, "rows_planned": len(planned())}
    for name, errors in (("work", work), ("retarget", carried), ("crowded", crowd)):
        if errors:
            found[f"{name}_mean"] = round(statistics.mean(errors), 4)
            found[f"{name}_worst"] = round(max(errors), 4)
    found["work_error"] = found.get("work_mean")
    return found


if __name__ == "__main__":
    main()
