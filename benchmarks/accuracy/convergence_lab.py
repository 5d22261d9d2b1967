"""How much of its exchange Overlap Local-SGD hides, in the lab; and what was predicted.

Two workers at 100 Mbit/s, the first with half a core. One job trains in turn plainly, without any
exchange, with local SGD, and with Overlap Local-SGD of the same period: the mean step over whole
periods of each. The exchange is what local SGD takes more than training apart does; hidden is what
of that Overlap Local-SGD does not take. At most as much can be hidden as a period has work
(`hideable_share`). Predicted from a recording of the plain job at 1 Gbit/s with whole cores, and
from this machine's processor time for a byte.
"""

import json
import os
import sys
import tempfile
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.accuracy import calibrated, cells, pipeline_lab, settings
from benchmarks.measure import RESULTS
from paceline.cluster import Cluster
from paceline.graph import Graph
from paceline.lab import Lab
from paceline.predict import Question, predict

KEPT = RESULTS / "convergence-lab.json"
JOB = Path(__file__).parent / "jobs" / "seldom.py"
RECORDED = settings.Setting("mlp", "ddp", 2, 1000)
MBIT, PERIOD, SHARE = 100, 24, 0.5
FREE_MBIT = 10**8  # a network that takes no time
WAYS = {
    "plain": "",
    "apart": "local_sgd(period=100000)",  # in a training of some steps they never meet
    "local_sgd": f"local_sgd(period={PERIOD})",
    "overlap_local_sgd": f"overlap_local_sgd(period={PERIOD})",
}


def kept() -> dict[str, Any]:
    """What was measured last; where nothing was, it is measured now, or left out with the reason
    where no lab stands up."""
    if KEPT.exists():
        found: dict[str, Any] = json.loads(KEPT.read_text())
        return found
    refused = pipeline_lab.why_not()
    return {"lab": f"left out: {refused}"} if refused else measured()


def measured() -> dict[str, Any]:
    """Measured now, and kept."""
    now = datetime.now(timezone.utc).strftime(cells.DATE)
    whole = {"load": round(os.getloadavg()[0], 2), "measured": now, **_figures()}
    found = {f"overlap_{name}": value for name, value in whole.items()}
    KEPT.write_text(json.dumps(found, indent=1) + "\n")
    return found


def _figures() -> dict[str, Any]:
    measured = _measured()
    predicted = _predicted(settings.record(RECORDED)[0])
    rows = [
        {
            "strategy": way,
            "measured_ms": round(measured[way], 2),
            "predicted_ms": round(predicted[way], 2),
            "error": round(predicted[way] / measured[way] - 1, 4),
        }
        for way in WAYS
    ]
    hidden = {"measured": _hidden(measured), "predicted": _hidden(predicted)}
    return {
        "hidden_share": hidden["measured"],
        "hidden_share_predicted": hidden["predicted"],
        "hideable_share": _hideable(measured),
        "error": abs(rows[-1]["error"]),
        "worst_error": max(abs(row["error"]) for row in rows if row["strategy"] != "apart"),
        "setting": f"{RECORDED.model}, 2 workers, {MBIT} Mbit/s, one with {SHARE:g} of a core, "
        f"exchange every {PERIOD} steps",
        "rows": rows,
    }


def _hidden(step: dict[str, float]) -> float:
    exchange = step["local_sgd"] - step["apart"]
    return round(1 - (step["overlap_local_sgd"] - step["apart"]) / exchange, 4)


def _hideable(step: dict[str, float]) -> float:
    """The most that could be hidden: an exchange lasts as long as a period's work, or longer."""
    exchange = PERIOD * (step["local_sgd"] - step["apart"])
    return round(min(1.0, PERIOD * step["apart"] / exchange), 4)


def _cluster(mbit: int = MBIT) -> Cluster:
    """The first worker's host is the slower one."""
    made = cells.cluster(2, mbit)
    return replace(made, hosts=(replace(made.hosts[0], cpus=SHARE), *made.hosts[1:]))


def _measured() -> dict[str, float]:
    """Mean steps in ms, by way."""
    with tempfile.TemporaryDirectory() as folder, Lab(_cluster()) as lab:
        out = Path(folder) / "steps.json"
        command = [*cells.FIRST, sys.executable, str(JOB), RECORDED.model, str(PERIOD), str(out)]
        lab.run([*command, *WAYS.values()], timeout_s=400, logs=Path(folder))
        told = json.loads(out.read_text())
    return {way: 1e3 * told[text] for way, text in WAYS.items()}


def _predicted(graph: Graph) -> dict[str, float]:
    made = calibrated.here()
    asked = Question(machine=calibrated.machine(made), calibration=made)
    plans = {way: [text] if text else [] for way, text in WAYS.items() if way != "apart"}
    there, free = (made.applied(_cluster(mbit)) for mbit in (MBIT, FREE_MBIT))
    found = {way: predict(graph, plan, there, asked).step_ns / 1e6 for way, plan in plans.items()}
    apart = predict(graph, [WAYS["local_sgd"]], free)  # and each with its own cores
    return {**found, "apart": apart.step_ns / 1e6}
