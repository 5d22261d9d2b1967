"""What new collectives among the replicas of a job have in common, whoever asks for them."""

from typing import Final

import numpy as np

from paceline.graph.border import UNSCALED
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE
from paceline.graph.rebucket.source import Source

PLAIN: Final = {"tensor": NONE, "flops": 0, "work": NONE, "scale_ppb": UNSCALED}
"""Columns of new ops that nothing is said of."""


def handed_ns(graph: Graph, source: Source) -> int:
    """What a thread takes to hand a collective over, as it did in the mean."""
    launches = source.launches
    return round(float(graph.ops.dur_ns[launches].mean())) if len(launches) else 0


def instances(graph: Graph, source: Source, step: Int64, place: Int64) -> Int64:
    """What joins the ranks' parts of each call, by its rank's step and its place there; a lone
    rank's call that stands for all has none."""
    ops, like = graph.ops, source.first[step]
    pairs = np.stack([ops.group[like].astype(np.int64), source.steps.step[step], place])
    width = pairs.max(axis=1, initial=0) - pairs.min(axis=1, initial=0) + 1
    past = pairs - pairs.min(axis=1, initial=0, keepdims=True)
    number = (past[0] * width[1] + past[1]) * width[2] + past[2]
    found = int(ops.instance.max(initial=NONE)) + 1 + number
    return np.where(ops.instance[like] == NONE, NONE, found)


def group_sizes(graph: Graph, source: Source) -> set[int]:
    """How many ranks the groups of replicas have."""
    groups = np.unique(source.group[source.group != NONE]).tolist()
    return {len(graph.groups[group].ranks) for group in groups}
