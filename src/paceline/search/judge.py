"""`Judge`: finds the scores of one job's plans, one by one or many together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from paceline.errors import PacelineError
from paceline.predict import Candidates
from paceline.replay import Timeline
from paceline.replay.memory_by_rank import rank_peaks
from paceline.search.errors import SearchError
from paceline.search.score import Refused, Score, score_of
from paceline.search.side_by_side import Reading, read
from paceline.search.together import scores_of
from paceline.strategies import Strategy


@dataclass(frozen=True, eq=False)
class Judge:
    """Scores plans of one job; peaks of memory too, where the candidates carry it."""

    candidates: Candidates
    _known: dict[tuple[Strategy, ...], Score | Refused] = field(
        default_factory=dict, init=False, repr=False
    )

    def score(self, plan: Sequence[Strategy]) -> Score | Refused:
        """Of a plan whose job is replayed alone: what `scores` finds too."""
        asked = tuple(plan)
        if asked not in self._known:
            self._known[asked] = self._score(asked)
        return self._known[asked]

    def scores(self, plans: Iterable[Sequence[Strategy]]) -> Iterator[Score | Refused]:
        """Of each plan in turn. Jobs that may stand together are replayed so."""
        return read(Reading[Score | Refused](self.score, scores_of), self.candidates, plans)

    @cached_property
    def exact(self) -> "Judge":
        """The same with every rank and all detail, and with memory."""
        return Judge(self.candidates.whole)

    @cached_property
    def remembering(self) -> "Judge":
        """The same with memory."""
        return Judge(self.candidates.remembering)

    def replayed(self, plan: Sequence[Strategy]) -> tuple[Score, Timeline]:
        """A plan's score with the replay that it is of; an error where it is refused."""
        timeline = self.candidates.timeline(plan)
        workers, wanted = timeline.graph.world_size, self.candidates.world_size
        if workers != wanted:
            raise SearchError(
                f"the plan asks for {workers} workers and the job has {wanted}; "
                "predict other numbers of workers with `paceline predict --workers`"
            )
        peaks = rank_peaks(timeline) if self.candidates.memory else ()
        memory_bytes = max((peak.peak_bytes for peak in peaks), default=None)
        return score_of(timeline, memory_bytes), timeline

    def _score(self, plan: Sequence[Strategy]) -> Score | Refused:
        try:
            return self.replayed(plan)[0]
        except PacelineError as error:
            return Refused(str(error))
