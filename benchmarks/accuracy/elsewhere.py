"""Recorded at one setting, predicted at another: the `any` and the `parallel` rows of retarget.

any: DDP jobs of four models at eight settings, predicted from each of the other seven; an LSTM
language model with a large embedding and a wide convolutional net were not used to build the model.
parallel: FSDP2, ZeRO, tensor x data and pipeline x data.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.accuracy import suite
from benchmarks.accuracy.cells import cluster
from benchmarks.accuracy.settings import (
    SUITE,
    SUITE_ASKED,
    SUITE_MACHINE,
    SUITE_START,
    Effort,
    Setting,
    kept_of,
    machine,
    record_missing,
    recordings,
    summary,
)
from paceline.cluster.machine import Machine
from paceline.graph import Graph
from paceline.graph.replicas import replicas_of
from paceline.predict import Question, predict
from paceline.strategies import strategy

ANY_MODELS = ("mlp", "transformer", "lstm", "wide")
ANY = tuple((workers, mbit) for workers in (2, 4) for mbit in (50, 200, 500, 1000))
PARALLEL = {
    "fsdp2": ((2, 1000), (2, 200), (4, 1000), (3, 500), (4, 200)),
    "zero": ((2, 1000), (2, 200), (4, 1000), (3, 500), (4, 200)),
    "tensor_data": ((4, 1000), (4, 300), (2, 1000), (2, 300)),
    "pipeline_data": ((4, 1000), (4, 100), (2, 1000), (2, 100)),
}

SUITE_GOALS = ((2, 200), (4, 1000))
ASKED = 0.12  # of the worst row

Recorded = tuple[Setting, Graph, dict[str, Any]]


def any_rows(effort: Effort, models: Sequence[str] = ANY_MODELS) -> dict[str, Any]:
    """Every setting of a model predicted from every other."""
    wanted = [Setting(model, "ddp", *place) for model in models for place in ANY]
    return summary(_rows_of(wanted, effort), "any", ASKED)


def parallel_rows(effort: Effort, kinds: Sequence[str] = tuple(PARALLEL)) -> dict[str, Any]:
    """The same of other kinds of parallelism, each by itself."""
    wanted = [Setting("mlp", kind, *place) for kind in kinds for place in PARALLEL[kind]]
    return summary(_rows_of(wanted, effort), "parallel", ASKED)


def suite_rows(effort: Effort) -> dict[str, Any]:
    """The data-parallel workloads of `paceline bench`, each recorded once, on two workers. Figures
    stand once all of them are there."""
    names, here = suite.data_parallel(), machine(SUITE_MACHINE, fresh=effort.fresh)
    places = (SUITE_START, *SUITE_GOALS)
    wanted = [Setting(name, SUITE, *place) for name in names for place in places]
    failed = record_missing(wanted, effort)
    found = {each[0]: each for each in kept_of(wanted, effort)}
    pairs = [
        (Setting(name, SUITE, *SUITE_START), Setting(name, SUITE, *goal))
        for name in names
        for goal in SUITE_GOALS
    ]
    made = [row(found[a], found[b], here) for a, b in pairs if a in found and b in found]
    missing = [each.key for each in wanted if each not in found]
    told: dict[str, Any] = {"suite_missing": missing, "suite_failed": failed}
    return told | ({"suite_rows": made} if missing else summary(made, "suite", SUITE_ASKED))


def _rows_of(wanted: Sequence[Setting], effort: Effort) -> list[dict[str, Any]]:
    here, found = machine(fresh=effort.fresh), defaultdict[tuple[str, str], list[Recorded]](list)
    for each in recordings(wanted, effort):
        found[each[0].model, each[0].parallel].append(each)
    return [row for given in found.values() for row in rows(given, here)]


def rows(given: Sequence[Recorded], here: Machine) -> list[dict[str, Any]]:
    return [
        row(start, goal, here)
        for start in given
        for goal in given
        if start[0] != goal[0] and _reachable(start[0], goal[0])
    ]


def row(start: Recorded, goal: Recorded, here: Machine) -> dict[str, Any]:
    """One prediction beside what was measured, in milliseconds."""
    setting, graph, facts = start
    there, _, truth = goal
    measured = 1e3 * truth["step_s"]["median"]
    changes = list(_changes(graph, setting, there))
    found = predict(graph, changes, cluster(there.workers, there.mbit), Question(machine=here))
    made = {
        "recorded": setting.key,
        "predicted": there.key,
        "measured_ms": round(measured, 2),
        "measured_spread": round(
            (truth["step_s"]["p90"] - truth["step_s"]["p10"]) / truth["step_s"]["median"], 3
        ),
        "predicted_ms": round(found.step_ns / 1e6, 2),
        "error": round(found.step_ns / 1e6 / measured - 1, 4),
        "floor": round(math.hypot(facts["floor"], truth["floor"]), 4),
        "loads": [facts["load"], truth["load"]],
    }
    told = f"{made['predicted_ms']} beside {made['measured_ms']} ms, {made['error']:+.1%}"
    print(f"{setting.key} -> {there.key}: {told} (floor {made['floor']:.1%})",
          file=sys.stderr, flush=True)  # fmt: skip
    return made


def _changes(graph: Graph, setting: Setting, there: Setting) -> Iterator[Any]:
    if there.workers != setting.workers:
        replicas = replicas_of(graph) * there.workers
        yield strategy("workers", count=replicas // setting.workers)


def _reachable(setting: Setting, there: Setting) -> bool:
    """A job of one replica does not show what joins replicas: it is a goal, never a start."""
    halves = 2 if setting.parallel in ("tensor_data", "pipeline_data") else 1
    return setting.workers > halves
