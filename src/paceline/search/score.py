"""`Score`: what a plan costs by replay. `Judge` finds it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.cost.collectives.volume import sent_share
from paceline.errors import PacelineError
from paceline.graph import Collective, Graph, OpKind
from paceline.graph.membership import TALKS
from paceline.graph.scaled import works
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


@dataclass(frozen=True, eq=False)
class Judge:
    """Scores plans of one job; peaks of memory too, where the candidates carry it."""

    candidates: Candidates

    def score(self, plan: Sequence[Strategy]) -> Score | Refused:
        try:
            return self._score(plan)
        except PacelineError as error:
            return Refused(str(error))

    def exact(self) -> "Judge":
        """The same with every rank and all detail, and with memory."""
        return Judge(self.candidates.whole)

    def remembering(self) -> "Judge":
        """The same with memory."""
        return Judge(self.candidates.remembering)

    def _score(self, plan: Sequence[Strategy]) -> Score:
        timeline = self.candidates.timeline(plan)
        graph, wanted = timeline.graph, self.candidates.world_size
        if graph.world_size != wanted:
            raise SearchError(
                f"the plan asks for {graph.world_size} workers and the job has {wanted}; "
                "predict other numbers of workers with `paceline predict --workers`"
            )
        peaks = rank_peaks(timeline) if self.candidates.memory else ()
        memory = max((peak.peak_bytes for peak in peaks), default=None)
        times, talks = _times(graph), TALKS[graph.ops.kind]
        return Score(
            step_ns=step_ns(timeline),
            samples=graph.facts.samples,
            sends=round(_sent_bytes(graph) / times),
            calls=float(talks.sum()) / times,
            work_ns=round(float(timeline.dur_ns[works(graph)].sum()) / times),
            memory_bytes=memory,
        )


def _times(graph: Graph) -> int:
    """Ranks times steps; of a job with a period the graph has whole periods."""
    ranks = np.count_nonzero(np.bincount(graph.ops.rank))
    return int(ranks) * len(np.unique(graph.ops.step))


def _sent_bytes(graph: Graph) -> float:
    """By the bytes that collectives and messages move."""
    ops = graph.ops
    talks = np.flatnonzero((ops.kind == OpKind.COLLECTIVE) & (ops.group >= 0))
    sizes = np.array([len(group.ranks) for group in graph.groups], np.int64)
    calls = ops.collective[talks].astype(np.int64) * (1 << 32) + sizes[ops.group[talks]]
    each, which = np.unique(calls, return_inverse=True)
    shares = [sent_share(Collective(c >> 32), c & 0xFFFFFFFF) for c in each.tolist()]
    whole = float((ops.size_bytes[talks] * np.array(shares)[which]).sum()) if len(talks) else 0.0
    return whole + float(ops.size_bytes[ops.kind == OpKind.SEND].sum())
