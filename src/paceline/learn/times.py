"""How long a round takes on a cluster: rounds of a run, priced and replayed like any other job.

A round is timed as a run's own clock times it: from the end of the last one on worker 0, without
the time that judging takes. While worker 0 judges the others go on as far as they can, so the round
behind is shorter. Hosts with `cpus` below 1 have quotas (`replay.quota`): by the periods in which
the lab deals them out.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import mode

import numpy as np

from paceline.cluster import Cluster
from paceline.cluster.machine import Machine
from paceline.cost import prices
from paceline.cost.collectives.algorithm import Call
from paceline.cost.collectives.gloo import Gloo
from paceline.graph import NONE, Collective, Graph, OpKind, Phase
from paceline.graph.condense import first_step
from paceline.graph.graph import Int64
from paceline.graph.scaled import works
from paceline.lab.quota import PERIOD_US
from paceline.learn.held import Replayed, held
from paceline.learn.record import LearnRun, Round
from paceline.learn.round_graph import LEAST_ROUNDS, Around, rounds_as_graph
from paceline.measure.handling import UNHANDLED, Handling
from paceline.predict import Prediction, Question, predict
from paceline.predict.interval import interval_of
from paceline.predict.predicting import rates_of
from paceline.replay import Timeline, flows, replay, replay_many
from paceline.replay.quota import Quota

_STRETCHES = 4  # places of the run that are looked at: rounds change as a model grows
_LONG = 6  # rounds in each
_LONG_HELD = 27  # the same with quotas, whose periods rounds meet each time in another way
_BEFORE = 2  # rounds of it, at most, before the first that is timed
_TURNS = 4  # in which periods begin


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
    workers share its cores and the lab's links; without one each has its own. What messages take of
    the workers' processors its calibration tells."""
    handling = _handling(question)
    quotas, every = quotas_of(cluster, handling), judged_every(run)
    found, graphs = list[list[float]](), list[Graph]()
    places = {each.round for each in run.judged}
    for part in stretches(run.rounds, _most(every) if quotas else _LONG, places):
        judged = _before(len(part)) if cluster.workers > 1 and every else NONE
        around = Around(handling, judged)
        graphs.append(rounds_as_graph(run, cluster.workers, part, around))
        replays = _replays(graphs[-1], _unlimited(cluster), question)
        held_by = _Held(quotas, every, _turns(len(found)) if quotas else (0.0,))
        found.append([_round_ns(replays, each, held_by) for each in replays.dur_ns])
    mean, low, high = (np.array(found).mean(axis=0) / 1e9).tolist()
    slow = _slow_s(graphs[len(graphs) // 2], cluster, mean)
    return RoundTime(mean, low, high, tuple(each[0] / 1e9 for each in found), slow)


def stretches(
    rounds: Sequence[Round], most: int = _LONG, judged: Collection[int] = ()
) -> list[Sequence[Round]]:
    """Rounds in a row from several places of the run, evenly apart; the first that is timed follows
    on one that was judged, where there is such a place."""
    long = max(LEAST_ROUNDS, min(most, len(rounds)))
    count = max(1, min(_STRETCHES, len(rounds) // long))
    last = len(rounds) - long
    behind = [n for n in range(last + 1) if rounds[n + _before(long) - 1].number in judged]
    starts = np.linspace(0, last, count).astype(int).tolist()
    if behind:
        starts = [behind[int(np.abs(np.array(behind) - at).argmin())] for at in starts]
    return [rounds[at : at + long] for at in starts]


def _before(long: int) -> int:
    """Rounds of a stretch before the first that is timed."""
    return min(_BEFORE, long - 2)


def _most(every: int) -> int:
    """Rounds of a stretch with quotas: from one judgement to the next, and not too many."""
    return min(_LONG_HELD, _BEFORE + every + 1) if every > 1 else _LONG_HELD


def quotas_of(cluster: Cluster, handling: Handling = UNHANDLED) -> dict[int, Quota]:
    """By rank, of those whose hosts have less than a core for each worker."""
    shares = {n: cluster.hosts[cluster.place_of(n)[0]].cpus for n in range(cluster.workers)}
    cold_ns = round(handling.cold_ns)
    return {n: Quota(cpus, 1000 * PERIOD_US, cold_ns) for n, cpus in shares.items() if 0 < cpus < 1}


def judged_every(run: LearnRun) -> int:
    """Rounds from one judgement to the next; 0 where nothing tells."""
    apart = [b.round - a.round for a, b in pairwise(run.judged)]
    return mode(apart) if apart else 0


def _unlimited(cluster: Cluster) -> Cluster:
    return replace(cluster, hosts=tuple(replace(host, cpus=0.0) for host in cluster.hosts))


def _handling(question: Question | None) -> Handling:
    made = question.calibration if question is not None else None
    return UNHANDLED if made is None or made.handling is None else made.handling


@dataclass(frozen=True, eq=False)
class _Replays:
    """Rounds on a cluster without quotas: how they are replayed, and what each op takes, in the
    middle and at both ends of its interval."""

    graph: Graph
    replayed: Replayed
    dur_ns: tuple[Int64, Int64, Int64]


def _replays(graph: Graph, cluster: Cluster, question: Question | None) -> _Replays:
    if question is not None and question.machine is not None:
        machine = _stalling(question, graph, cluster)
        question = replace(question, shaped_links=cluster.workers > 1, machine=machine)
        there = predict(graph, (), cluster, question)
        assert there.run is not None, "predictions carry their replay"
        return _Replays(there.run.graph, there.run, _durations(there))
    alone = predict(graph, (), cluster, question)
    assert alone.run is not None, "predictions carry their replay"
    at, each = alone.run.graph, _durations(alone)
    if cluster.workers == 1:
        return _Replays(at, alone.run, each)
    shared = flows(at, cluster, rates_of(question or Question(), cluster))
    return _Replays(at, lambda dur_ns: replay(at, prices=dur_ns, transfers=shared), each)


def _stalling(question: Question, graph: Graph, cluster: Cluster) -> Machine | None:
    """The machine in the question, whose messages also wait for what stalls them. Where that was
    measured between workers in Python, it stands in place of what stalls gloo alone."""
    machine, handling = question.machine, _handling(question)
    if machine is None or not handling.stall_ns:
        return machine
    stalled_ns = handling.stalled_ns(cluster.workers, machine.cores, _on_links_ns(graph, cluster))
    return replace(machine, message_ns=machine.message_ns + stalled_ns, stall_ns=0.0)


def _on_links_ns(graph: Graph, cluster: Cluster) -> list[float]:
    """Of each message: what one of a ring takes on the slowest link. Those that go straight to
    others come all at once, and a link that stands still meanwhile hides nothing."""
    hosts = [cluster.place_of(rank)[0] for rank in range(cluster.workers)]
    links = [cluster.link_of(host) for host in hosts]
    slowest = min(min(each.free_up_bytes_per_s, each.free_down_bytes_per_s) for each in links)
    ops = graph.ops
    found = [0.0] * int(((ops.kind == OpKind.SEND) & (ops.rank == 0)).sum())
    for op in np.flatnonzero((ops.kind == OpKind.COLLECTIVE) & (ops.rank == 0)).tolist():
        call = Call(Collective(int(ops.collective[op])), int(ops.size_bytes[op]), tuple(hosts))
        for each in Gloo().rounds(call):
            found += [1e9 * float(each.size_bytes.max()) / slowest] * each.repeat
    return found


def _durations(there: Prediction) -> tuple[Int64, Int64, Int64]:
    assert there.run is not None, "predictions carry their replay"
    assert there.prices is not None, "predictions carry their prices"
    graph = there.run.graph
    interval = interval_of(graph, there.prices, works(graph))
    return there.prices.dur_ns, interval.low_ns, interval.high_ns


@dataclass(frozen=True)
class _Held:
    """What holds workers up beside the replay."""

    quotas: Mapping[int, Quota]
    every: int  # rounds from one judgement to the next
    turns: Sequence[float]  # the ways in which periods of quotas begin


def _turns(stretch: int) -> tuple[float, ...]:
    """In each stretch others."""
    return tuple((turn + stretch / _STRETCHES) / _TURNS for turn in range(_TURNS))


def _round_ns(replays: _Replays, dur_ns: Int64, by: _Held) -> float:
    """The mean over the ways in which periods may begin."""
    found = [
        _mean_ns(held(replays.replayed, replays.graph, dur_ns, by.quotas, turn), by.every)
        for turn in by.turns
    ]
    return float(np.mean(found))


def _mean_ns(timeline: Timeline, every: int) -> float:
    """From one judgement to the next. Rounds that were not drawn are as the later ones of those
    that were; the last one drawn is left out, for nobody goes on behind it."""
    ops = timeline.graph.ops
    updates = np.flatnonzero((ops.phase == Phase.UPDATE) & (ops.rank == 0))
    judges = np.flatnonzero(ops.kind == OpKind.WAIT)
    ends = timeline.end_ns[updates][:-1].tolist()
    begins = timeline.end_ns[judges].tolist() or ends[: min(_BEFORE, len(ends) - 1)][-1:]
    took = np.diff([begins[0], *(end for end in ends if end > begins[0])])
    if every <= len(took) or not judges.size:
        return float(took[: every if judges.size else None].mean())
    later = took[len(took) // 2 :].mean()
    return float(later + (took - later).sum() / every)


def _slow_s(graph: Graph, cluster: Cluster, mean_s: float) -> float:
    """The 95th percentile of a round whose clients' paces are drawn, around the mean."""
    priced = replace(graph, ops=replace(graph.ops, dur_ns=prices(graph, cluster).dur_ns))
    drawn = replay_many(first_step(priced), _DRAWS)
    return mean_s * drawn.p95_ns / max(1.0, drawn.mean_ns)


_DRAWS = 200
