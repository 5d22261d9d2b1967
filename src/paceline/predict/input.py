"""The accelerator's utilisation of a job whose batches come in otherwise, by its graph.

    AU = computing / running, from the end of the first step to that of the last

which is MLPerf Storage's definition with its one excluded step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.cluster.machine import Machine
from paceline.graph import Graph, OpKind, Phase
from paceline.predict.errors import PredictError
from paceline.predict.predicting import predict
from paceline.predict.prediction import Question
from paceline.replay import Timeline
from paceline.strategies import Strategy


@dataclass(frozen=True)
class Fed:
    """How well a job is fed after changes."""

    changes: tuple[str, ...]
    utilisation: float
    step_ns: int


def fed(graph: Graph, changes: Sequence[Strategy | str] = (), cores: float = 0.0) -> Fed:
    """`cores` are those of the host, for its training thread and all loaders; 0: as recorded."""
    cores = cores or graph.facts.cores
    question = Question(machine=Machine(cores) if cores else None)
    found = predict(graph, changes, question=question)
    step_ns, share = _fed(found.timeline, graph)
    return Fed(tuple(map(str, changes)), share, step_ns)


def _fed(timeline: Timeline, recorded: Graph) -> tuple[int, float]:
    ops = timeline.graph.ops
    borders = np.sort(timeline.end_ns[ops.phase == Phase.UPDATE])
    if not recorded.facts.steps_overlap or len(borders) < 2:
        raise PredictError(
            "utilisation is predicted from a run of `paceline io run --workers 0`, which keeps "
            "every step; this graph is of another kind. `paceline predict` tells its step"
        )
    steps = len(borders) - 1
    was = recorded.ops
    computes = (was.kind == OpKind.COMPUTE) & (was.phase == Phase.FORWARD) & (was.step > 0)
    running = int(borders[-1] - borders[0])
    return running // steps, min(1.0, float(was.dur_ns[computes].sum()) / max(1, running))
