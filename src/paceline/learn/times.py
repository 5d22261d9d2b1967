"""How long a round takes on a cluster: rounds of a run, priced and replayed like any other job."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.cluster import Cluster
from paceline.cost import Rates, prices
from paceline.graph import Graph
from paceline.graph.condense import first_step
from paceline.learn.record import LearnRun, Round
from paceline.learn.round_graph import LEAST_ROUNDS, rounds_as_graph
from paceline.predict import Question, predict
from paceline.predict.classes import step_ns
from paceline.replay import flows, replay, replay_many

_STRETCHES = 4  # places of the run that are looked at: rounds change as a model grows
_LONG = 6  # rounds in each


@dataclass(frozen=True)
class RoundTime:
    """Mean over the run's rounds, with the interval of its prices; and how rounds spread where
    clients are slower at times than at others."""

    mean_s: float
    low_s: float
    high_s: float
    stretches_s: tuple[float, ...]  # by place in the run, early to late
    slow_s: float  # one round in twenty takes longer, by the paces that clients showed


def round_time(run: LearnRun, cluster: Cluster, question: Question | None = None) -> RoundTime:
    """On the cluster's workers, which carry the clients in turn. With a machine in the question all
    workers share its cores and the lab's links; without one each has its own."""
    graphs = [rounds_as_graph(run, cluster.workers, part) for part in stretches(run.rounds)]
    found = np.array([_round_ns(graph, cluster, question) for graph in graphs]) / 1e9
    mean, low, high = found.mean(axis=0).tolist()
    slow = _slow_s(graphs[len(graphs) // 2], cluster, mean)
    return RoundTime(mean, low, high, tuple(found[:, 0].tolist()), slow)


def stretches(rounds: Sequence[Round]) -> list[Sequence[Round]]:
    """Rounds in a row from several places of the run, evenly apart."""
    long = max(LEAST_ROUNDS, min(_LONG, len(rounds)))
    count = max(1, min(_STRETCHES, len(rounds) // long))
    starts = np.linspace(0, max(0, len(rounds) - long), count).astype(int).tolist()
    return [rounds[at : at + long] for at in starts]


def _round_ns(
    graph: Graph, cluster: Cluster, question: Question | None
) -> tuple[float, float, float]:
    """Of these rounds, with its interval."""
    if question is not None and question.machine is not None:
        there = predict(graph, (), cluster, replace(question, shaped_links=cluster.workers > 1))
        return there.step_ns, there.low_ns, there.high_ns
    alone = predict(graph, (), cluster, question)
    if cluster.workers == 1:
        return alone.step_ns, alone.low_ns, alone.high_ns
    found = prices(alone.timeline.graph, cluster)
    shared = flows(alone.timeline.graph, cluster, Rates())
    whole = step_ns(replay(alone.timeline.graph, prices=found.dur_ns, transfers=shared))
    each = max(1, alone.step_ns)
    return whole, whole * alone.low_ns / each, whole * alone.high_ns / each


def _slow_s(graph: Graph, cluster: Cluster, mean_s: float) -> float:
    """The 95th percentile of a round whose clients' paces are drawn, around the mean."""
    priced = replace(graph, ops=replace(graph.ops, dur_ns=prices(graph, cluster).dur_ns))
    drawn = replay_many(first_step(priced), _DRAWS)
    return mean_s * drawn.p95_ns / max(1.0, drawn.mean_ns)


_DRAWS = 200
