"""The best plans of a question: memory decides what may run, bounds what need not be replayed.

Plans that fit are priced in the order of their bounds. One whose bound is no better than the step
of a plan that is as fast and holds no more is dominated, whatever its step is: it is left out
unreplayed, so the Pareto set of time against memory is that of all plans.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.graph.kinds import MemoryCategory
from paceline.imagine.decoder import DecoderJob, RankPeak, fullest
from paceline.place.hybrid.question import PlanQuestion, settings_of
from paceline.place.hybrid.space import candidates
from paceline.place.hybrid.step import Priced, bound_ns, chunks_of, price


@dataclass(frozen=True)
class Oversized:
    """A plan that does not fit."""

    job: DecoderJob
    peak: RankPeak

    @property
    def category(self) -> MemoryCategory:
        """Whose bytes are the most."""
        return max(self.peak.held, key=lambda one: self.peak.held[one])


@dataclass(frozen=True, eq=False)
class Search:
    """What a search went through. `front` is fastest first; each holds less than the one before."""

    question: PlanQuestion
    front: tuple[Priced, ...]
    priced: tuple[Priced, ...]
    oversized: tuple[Oversized, ...]
    jobs: Mapping[tuple[object, ...], DecoderJob]  # all that were considered, by their settings
    pruned: int

    @property
    def considered(self) -> int:
        return len(self.jobs)

    @property
    def best(self) -> Priced:
        return self.front[0]

    @property
    def leanest(self) -> Oversized | None:
        """Of those that do not fit, the one that lacks least."""
        return min(self.oversized, key=lambda one: one.peak.total, default=None)

    @property
    def categories(self) -> Counter[MemoryCategory]:
        """Plans that do not fit, by what takes most of their memory."""
        return Counter(one.category for one in self.oversized)


def search(question: PlanQuestion, *, prune: bool = True) -> Search:
    """All plans of a question; without `prune` every one that fits is replayed."""
    prices = question.prices()
    fitting: list[tuple[float, DecoderJob, RankPeak]] = []
    oversized: list[Oversized] = []
    jobs = {tuple(settings_of(job).values()): job for job in candidates(question)}
    for job in jobs.values():
        peak = fullest(job)
        if peak.total > question.memory_bytes:
            oversized.append(Oversized(job, peak))
        else:
            fitting.append((bound_ns(job, chunks_of(job, prices)), job, peak))
    fitting.sort(key=lambda one: (one[0], one[2].total))
    priced: list[Priced] = []
    front: list[Priced] = []
    for bound, job, peak in fitting:
        if prune and any(one.step_ns <= bound and one.peak.total <= peak.total for one in front):
            continue
        made = price(job, prices)
        priced.append(made)
        front = pareto([*front, made])
    return Search(
        question, tuple(front), tuple(priced), tuple(oversized), jobs,
        len(fitting) - len(priced),
    )  # fmt: skip


def pareto(found: Sequence[Priced]) -> list[Priced]:
    """Fastest first; each holds less than all before it."""
    kept: list[Priced] = []
    for one in sorted(found, key=lambda one: (one.step_ns, one.peak.total)):
        if not kept or one.peak.total < kept[-1].peak.total:
            kept.append(one)
    return kept
