"""Serving plans against every other division of cores and batch, and a server whose load changes.

`gap_to_brute_force`: ResNet-50, BERT-base and GPT-2 (32 tokens) in batches of 1 to 64: the plan
from a profile, and every configuration of this machine's cores (each set of instances, each
division of the batch), run for real (`serve_rows`). The gap is the plan's median over the least
median, the worst row. `noise` is the spread (half of p10 to p90) of the plan's own runs.
`vs_one_instance`: the time of one instance on all cores over the plan's, mean over rows;
`..._worst` the smallest. `vs_plain_worst`: the same for the best of all plain choices (one
instance, one per core, torch's launcher in both modes). `vs_openvino`: OpenVINO's better
performance hint over the plan's time, both in float32; it has kernels of its own besides, so this
compares more than plans. `vs_openvino_unasked`: the same in what OpenVINO takes where nobody says,
bfloat16 where the processor has it.
`failed`, `p99_during`: 10,000 requests to a server whose load changes three times between 1 and 16
clients; p99 of requests from a change until a second after its last reconfiguration, over that of
the same load's other requests, the worst change.

Rows come in a fixed random order and are kept as they come in `benchmarks/results/serve-rows.json`,
with the machine that they are of; `--budget MINUTES` begins none behind that, so that an ended run
goes on where it was. `rows_share` is how many of them there are.

    python benchmarks/speed/serve.py --budget 20 --json
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.speed.jobs.serving_load import Phase, under_load
from benchmarks.speed.serve_rows import MODELS, NAMES, Planned, planned

from benchmarks import kept, measure

LOAD = "load"
"""The name under which the reconfigurations are kept, beside the rows."""
QUICK = (Planned(NAMES[0], 1), Planned(NAMES[0], 8))


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__)
    parser.add_argument("--budget", type=float, default=30.0, metavar="MINUTES")
    parser.add_argument("--only", choices=("rows", LOAD), help="one of both")
    options = parser.parse_args(arguments)
    if options.quick:
        rows, under = [one.made() for one in QUICK], loaded(1_000)
    else:
        found = measured(options)
        rows = [found[one.name] for one in planned() if one.name in found]
        under = {name: value for name, value in found.get(LOAD, {}).items() if name != "load"}
    figures = {**summary(rows), **under, "rows_share": len(rows) / len(planned()), "rows": rows}
    return measure.report("speed/serve", figures, options, "torch", "openvino")


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """What is kept of this machine, and what the budget adds to it."""
    makers: dict[str, Callable[[], kept.Row]] = {}
    if options.only != "rows":
        makers[LOAD] = partial(loaded, 10_000)
    if options.only != LOAD:
        makers |= {one.name: one.made for one in planned()}
    return kept.rows("serve", makers, options.budget)


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not rows:
        return {}
    peers = [row["vs_openvino"] for row in rows if "vs_openvino" in row]
    unasked = [row["vs_openvino_unasked"] for row in rows if "vs_openvino_unasked" in row]
    return {
        "gap_to_brute_force": max(row["gap"] for row in rows),
        "gap_mean": statistics.mean(row["gap"] for row in rows),
        "noise": max(row["noise"] for row in rows),
        "vs_one_instance": statistics.mean(row["vs_one_instance"] for row in rows),
        "vs_one_instance_worst": min(row["vs_one_instance"] for row in rows),
        "vs_plain_worst": min(row["vs_plain"] for row in rows),
        "vs_openvino": statistics.mean(peers) if peers else None,
        "vs_openvino_worst": min(peers) if peers else None,
        "vs_openvino_unasked": statistics.mean(unasked) if unasked else None,
    }


def loaded(requests: int) -> dict[str, Any]:
    """A server under 1, 16, 1 and 16 clients."""
    phases = [Phase(clients, requests // 4) for clients in (1, 16, 1, 16)]
    return under_load(f"{MODELS}:small", 16, phases)


if __name__ == "__main__":
    main()
