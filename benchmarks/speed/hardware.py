"""Hardware and placement together: BERT-large and a GPT-2-like model on 1,024 accelerators.

Per model: the design found, its throughput, and every shipped baseline at the same area limit
(TPUv4-like and GPU-like, each with its best plan and with fixed splits). Models are searched side
by side, one process each.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from paceline.place.hardware import (
    BERT_LARGE,
    DESIGNS,
    GPT2_54,
    AcceleratorFleet,
    SearchSettings,
    UniformModel,
    baselines,
    search,
)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = measure.parser(__doc__ or "").parse_args(arguments)
    settings = (
        SearchSettings(seconds=15.0, finalists=4, winners=1) if options.quick else SearchSettings()
    )
    began = perf_counter()
    with ProcessPoolExecutor(2) as pool:
        rows = list(pool.map(compare, (BERT_LARGE, GPT2_54), (settings, settings)))
    figures = {
        "seconds": perf_counter() - began,
        "vs_best_baseline": min(row["vs_best_baseline"] for row in rows),
        "devices": AcceleratorFleet().devices,
        "models": rows,
    }
    return measure.report("speed/hardware", figures, options, "ortools")


def compare(model: UniformModel, settings: SearchSettings) -> dict[str, Any]:
    """The search's answer for one model beside the baselines."""
    fleet = AcceleratorFleet()
    found = search((model,), fleet, settings, DESIGNS.values())
    others = {b.name: b.plan.samples_per_s(fleet) for b in baselines(model, fleet, settings)}
    best = found.best.score(fleet)
    plan = found.best.plans[0]
    return {
        "model": model.name,
        "template": str(found.best.template),
        "samples_per_s": best,
        "vs_best_baseline": best / max(others.values()),
        "micro_batch": plan.micro_batch,
        "replicas": plan.replicas,
        "stages": [asdict(stage) for stage in plan.stages],
        "templates_considered": found.considered,
        "templates_planned": found.planned,
        "templates_refined": found.refined,
        "buckets": found.buckets,
        "stopped": found.stopped,
        "search_seconds": found.seconds,
        "baselines": others,
    }


if __name__ == "__main__":
    main()
