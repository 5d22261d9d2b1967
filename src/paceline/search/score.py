"""`Score`: what a plan costs by replay."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.cost.collectives.volume import sent_share
from paceline.graph import Collective, Graph, OpKind
from paceline.graph.distinct import Distinct
from paceline.graph.graph import Int64
from paceline.graph.membership import TALKS
from paceline.graph.rank_steps import numbered
from paceline.graph.scaled import works
from paceline.predict.classes import step_ns
from paceline.replay import Timeline


@dataclass(frozen=True)
class Score:
    """What a plan costs a mean worker."""

    step_ns: int
    samples: float  # of a worker's step, as a multiple of the recorded step's
    sends: int  # bytes of a mean rank and step
    calls: float = 0.0  # collectives and messages of a mean rank and step
    work_ns: int = 0  # of a mean rank and step, hidden or not
    memory_bytes: int | None = None  # at the fullest rank's peak; None: not known, or not asked

    @property
    def batch_ns(self) -> float:
        """For as many samples as the recorded step has."""
        return self.step_ns / self.samples

    @property
    def batch_sends(self) -> float:
        return self.sends / self.samples

    @property
    def batch_work_ns(self) -> float:
        return self.work_ns / self.samples


@dataclass(frozen=True)
class Refused:
    """A plan that this job or cluster does not take."""

    reason: str


def score_of(timeline: Timeline, memory_bytes: int | None) -> Score:
    """Of a job that was replayed alone."""
    graph = timeline.graph
    times, (_, sent) = _times(graph), sent_bytes(graph)
    messages = graph.ops.size_bytes[graph.ops.kind == OpKind.SEND]
    return Score(
        step_ns=step_ns(timeline),
        samples=graph.facts.samples,
        sends=round((float(sent.sum()) + float(messages.sum())) / times),
        calls=float(TALKS[graph.ops.kind].sum()) / times,
        work_ns=round(float(timeline.dur_ns[works(graph)].sum()) / times),
        memory_bytes=memory_bytes,
    )


def sent_bytes(graph: Graph) -> tuple[Int64, NDArray[np.float64]]:
    """Collectives, and the bytes that each moves from its rank."""
    ops = graph.ops
    talks = np.flatnonzero((ops.kind == OpKind.COLLECTIVE) & (ops.group >= 0))
    sizes = np.array([len(group.ranks) for group in graph.groups], np.int64)
    kinds = len(Collective)
    each, which = numbered(sizes[ops.group[talks]] * kinds + ops.collective[talks])
    shares = [sent_share(Collective(c % kinds), c // kinds) for c in each.tolist()]
    return talks, ops.size_bytes[talks] * np.array(shares, np.float64)[which]


def _times(graph: Graph) -> int:
    """Ranks times steps; of a job with a period the graph has whole periods."""
    ranks = np.count_nonzero(np.bincount(graph.ops.rank))
    return int(ranks) * len(Distinct.of(graph.ops.step))
