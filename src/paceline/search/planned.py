"""What a search found, as a plan for `apply`; and a plan priced anew for a job that has changed."""

from dataclasses import replace

from paceline.cluster import Cluster
from paceline.graph import Graph
from paceline.predict import Prediction, Question, predict
from paceline.search.found import Found
from paceline.strategies import Plan, Predicted, made_for
from paceline.strategies.plan import differences
from paceline.strategies.sends import sends_of


def planned(found: Found, graph: Graph, cluster: Cluster | None, question: Question) -> Plan:
    """The best plan with all that its choice rests on."""
    plan = Plan(found.best.plan, reasons=found.best.reasons)
    return _priced(plan, graph, cluster, question, found.unchanged.batch_ns)


def repriced(
    plan: Plan, graph: Graph, cluster: Cluster | None, question: Question
) -> tuple[Plan, tuple[str, ...]]:
    """The plan as it is where nothing has changed, else with new predictions; and what changed.
    Refused for another model, number of workers or version. Reasons are those of the search."""
    different = differences(plan, graph, cluster)
    if not different and plan.predicted is not None:
        return plan, ()
    before = predict(graph, (), cluster, question).batch_ns
    return _priced(plan, graph, cluster, question, before), different


def _priced(
    plan: Plan, graph: Graph, cluster: Cluster | None, question: Question, unchanged_ns: float
) -> Plan:
    after = predict(graph, plan.strategies, cluster, replace(question, draws=0))
    return replace(
        plan,
        made_for=made_for(graph, plan.strategies, cluster),
        sends=sends_of(after.timeline.graph),
        predicted=_told(after, unchanged_ns),
    )


def _told(found: Prediction, unchanged_ns: float) -> Predicted:
    return Predicted(
        found.step_ns,
        found.low_ns,
        found.high_ns,
        found.batch_ns,
        unchanged_ns,
        found.memory.peak_bytes if found.memory else None,
    )
