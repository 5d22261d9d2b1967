"""`plan`: what to do with a model on a cluster: the best plans, the usual one and one's own."""

from dataclasses import dataclass

from paceline.imagine.decoder import DecoderJob
from paceline.place.hybrid.nowhere import refuse
from paceline.place.hybrid.own import own_plan
from paceline.place.hybrid.question import PlanQuestion
from paceline.place.hybrid.reasons import Reason, reasons
from paceline.place.hybrid.rule import rule_of_thumb
from paceline.place.hybrid.search import Search, search
from paceline.place.hybrid.step import Priced, price


@dataclass(frozen=True, eq=False)
class NamedPlan:
    """A row of the table."""

    name: str
    priced: Priced
    fits: bool


@dataclass(frozen=True, eq=False)
class Planned:
    """The answer: rows are the Pareto set, fastest first, then the rule of thumb and one's own."""

    search: Search
    rows: tuple[NamedPlan, ...]
    reasons: tuple[Reason, ...]

    @property
    def best(self) -> Priced:
        return self.rows[0].priced


def plan(question: PlanQuestion, own: str = "") -> Planned:
    """Plans of a question; an error says what is lacking where none fits."""
    mine = own_plan(question, own) if own else None
    found = search(question)
    if not found.front:
        raise refuse(found)
    rows = [
        NamedPlan("best" if not i else "leaner", one, True) for i, one in enumerate(found.front)
    ]
    usual = rule_of_thumb(question)
    rows += [_named(question, "rule of thumb", usual)] if usual else []
    rows += [_named(question, "own", mine)] if mine else []
    return Planned(found, tuple(rows), reasons(found, found.best))


def _named(question: PlanQuestion, name: str, job: DecoderJob) -> NamedPlan:
    priced = price(job, question.prices())
    return NamedPlan(name, priced, priced.peak.total <= question.memory_bytes)
