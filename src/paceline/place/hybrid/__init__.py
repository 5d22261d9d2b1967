"""Hybrid plans: a language model on many devices, over data, tensor, pipeline, context and expert
ranks, within their memory.

    question = PlanQuestion(decoder("llama3-70b"), site_of(cluster), global_batch=128)
    plan(question).best.job.degrees

Every plan is priced by replaying its step; proven bounds say which need not be.
"""

from paceline.place.hybrid.own import own_plan
from paceline.place.hybrid.planning import NamedPlan, Planned, plan
from paceline.place.hybrid.question import AXES, Allowed, PlanQuestion, settings_of, spelled
from paceline.place.hybrid.reasons import Reason, reasons
from paceline.place.hybrid.rule import rule_of_thumb
from paceline.place.hybrid.search import Oversized, Search, pareto, search
from paceline.place.hybrid.space import candidates
from paceline.place.hybrid.step import Priced, bound_ns, chunks_of, price

__all__ = [
    "AXES",
    "Allowed",
    "NamedPlan",
    "Oversized",
    "PlanQuestion",
    "Planned",
    "Priced",
    "Reason",
    "Search",
    "bound_ns",
    "candidates",
    "chunks_of",
    "own_plan",
    "pareto",
    "plan",
    "price",
    "reasons",
    "rule_of_thumb",
    "search",
    "settings_of",
    "spelled",
]
