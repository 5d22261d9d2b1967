"""`Score`: what a plan costs by replay. `Judge` finds it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.cost.collectives.volume import sent_share
from paceline.errors import PacelineError
from paceline.graph import Collective, Graph, OpKind
from paceline.predict import Candidates
from paceline.predict.classes import step_ns
from paceline.replay.memory_by_rank import rank_peaks
from paceline.search.errors import SearchError
from paceline.strategies import Strategy


@dataclass(frozen=True)
class Score:
    """What a plan costs a mean worker."""

    step_ns: int
    samples: float  # of a worker's step, as a multiple of the recorded step's
    sends: int  # bytes of a mean rank and step
    memory_bytes: int | None = None  # at the fullest rank's peak; None: not known, or not asked

    @property
    def batch_ns(self) -> float:
        """For as many samples as the recorded step has."""
        return self.step_ns / self.samples


@dataclass(frozen=True)
class Refused:
    """A strategy or a plan that this job or cluster does not take."""

    reason: str


@dataclass(frozen=True, eq=False)
class Judge:
    """Scores plans of one job; `memory`: peaks too, which take as long again."""

    candidates: Candidates
    memory: bool = False

    def score(self, plan: Sequence[Strategy]) -> Score | Refused:
        try:
            return self._score(plan)
        except PacelineError as error:
            return Refused(str(error))

    def _score(self, plan: Sequence[Strategy]) -> Score:
        timeline = self.candidates.timeline(plan)
        graph = timeline.graph
        wanted = self.candidates.graph.world_size
        if graph.world_size != wanted:
            raise SearchError(
                f"the plan asks for {graph.world_size} workers and the job has {wanted}; "
                "predict other numbers of workers with `paceline predict --workers`"
            )
        peaks = rank_peaks(timeline) if self.memory else ()
        memory = max((peak.peak_bytes for peak in peaks), default=None)
        return Score(step_ns(timeline), graph.facts.samples, sent_bytes(graph), memory)


def sent_bytes(graph: Graph) -> int:
    """What a mean rank sends in a mean step, by the bytes that its collectives and messages move;
    of a job with a period, over whole periods."""
    ops = graph.ops
    talks = np.flatnonzero((ops.kind == OpKind.COLLECTIVE) & (ops.group >= 0))
    sizes = np.array([len(group.ranks) for group in graph.groups], np.int64)
    share = np.zeros(len(talks))
    pairs = np.stack([ops.collective[talks], sizes[ops.group[talks]]], axis=1)
    for collective, members in np.unique(pairs, axis=0).tolist():
        mine = (pairs == (collective, members)).all(axis=1)
        share[mine] = sent_share(Collective(collective), members)
    whole = float((ops.size_bytes[talks] * share).sum())
    whole += float(ops.size_bytes[ops.kind == OpKind.SEND].sum())
    times = len(graph.ranks) * len(np.unique(ops.step))
    return round(whole / max(1, times))
