"""How far predictions are off where a noisy neighbour was there, or where cores were too few.

The neighbour (`noise_maker`) makes bursts on one core, copies memory, or both, from fixed seeds.

self: the replayed step of a job that was recorded beside it, against the plain steps that took
turns with the recorded ones; five jobs, the three kinds of noise. retarget: three models recorded
beside it, predicted at four other settings each that run without it in the same minutes; work: the
run time of their plain step against that of a recording made alone. pipeline: six pipelines
profiled and run beside it. crowded: recorded with four workers on two cores and carried to two, and
back. false_alarms: the share of 200 pairs of recordings of an unchanged job, all made beside it,
of which `diff` says anything but that they are the same; called: that one is slower, where it does
not lay the difference to the neighbour.

Rows come in a fixed random order and are kept as they come in `benchmarks/results/noise-rows.json`,
with the machine that they are of; `--budget MINUTES` ends the run there.

    python benchmarks/accuracy/noise.py --budget 20 --json
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy.noise_rows import Row, planned, pricing_machine
from benchmarks.floors import told_apart
from paceline.cluster.machine import Machine

KEPT = measure.RESULTS / "noise-rows.json"
ASKED = {"self": 0.08, "retarget": 0.12, "pipeline": 0.08, "crowded": 0.10}
"""Of the worst row. A row whose floor is above half of it is not measurable."""


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--budget", type=float, default=20.0, metavar="MINUTES")
    options = parser.parse_args(arguments)
    rows = dict(measured(options))
    return measure.report("accuracy/noise", figures(rows), options, "torch")


def measured(options: argparse.Namespace) -> Iterator[tuple[str, Row]]:
    """Rows that are kept of this machine, then new ones until the budget ends."""
    end = time.monotonic() + 60 * (1.0 if options.quick else options.budget)
    kept = load()
    for planned_row in planned():
        name = planned_row.name
        if name not in kept["rows"]:
            if time.monotonic() > end:
                continue
            if "prices" not in kept:
                kept["prices"] = pricing_machine()
            kept["rows"][name] = planned_row.make(Machine(**kept["prices"]))
            KEPT.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n")
            print(f"{name}: {kept['rows'][name]}", file=sys.stderr, flush=True)
        yield name, kept["rows"][name]


def load() -> dict[str, Any]:
    """What is kept; nothing of it where it is of another machine."""
    here = measure.machine()
    kept: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return kept if kept.get("machine") == here else {"machine": here, "rows": {}}


def figures(rows: dict[str, Row]) -> dict[str, Any]:
    """Mean and worst error of each kind over the rows that could be judged."""
    asked_rows = len(planned())
    found: dict[str, Any] = {"rows": rows, "rows_share": round(len(rows) / asked_rows, 4)}
    judged = [cell for row in rows.values() for cell in row.get("cells", ())]
    for kind, asked in ASKED.items():
        good, lost = told_apart([cell for cell in judged if cell["kind"] == kind], asked)
        found[f"{kind}_not_measurable"] = len(lost)
        if good:
            errors = [abs(cell["error"]) for cell in good]
            found[f"{kind}_mean"] = round(statistics.mean(errors), 4)
            found[f"{kind}_worst"] = round(max(errors), 4)
            found[f"{kind}_count"] = len(errors)
    works = [abs(error) for row in rows.values() for error in row.get("work_errors", ())]
    if works:
        found["work_error"], found["work_worst"] = round(statistics.mean(works), 4), max(works)
    pairs = [alarm for row in rows.values() for alarm in row.get("alarms", ())]
    if pairs:
        left = [told for row in rows.values() for told in row.get("undecided", ())]
        found["false_alarms"], found["pairs"] = round(statistics.mean(pairs), 4), len(pairs)
        found["called"] = round((sum(pairs) - sum(left)) / len(pairs), 4)
    lost_cells = sum(found[f"{kind}_not_measurable"] for kind in ASKED)
    return found | {
        "rows_judged": len(judged) - lost_cells,
        "rows_not_measurable": lost_cells,
    }


if __name__ == "__main__":
    main()
