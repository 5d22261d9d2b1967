"""`predict`: a recorded step, changed, on a cluster: how long it takes, and what that rests on."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from paceline.cluster import Cluster
from paceline.cost import SPREAD, Prices, Rates, prices
from paceline.graph import NONE, UNPRICED, Basis, DeviceKind, Graph
from paceline.graph.condense import Grain, condense
from paceline.graph.graph import Int64
from paceline.graph.one_lane import on_one_lane
from paceline.graph.scaled import works
from paceline.predict.anchor import anchored
from paceline.predict.classes import by_class, step_ns
from paceline.predict.interval import Interval, interval_of
from paceline.predict.prediction import PredictError, Prediction, Question
from paceline.predict.reasons import estimates_of, reasons_of
from paceline.predict.sharing import library_of, shared_of
from paceline.replay import Contention, Distribution, Timeline, replay, replay_many
from paceline.replay.hosts import SharedHosts
from paceline.strategies import Strategy, parse, transformed

Run = Callable[[Int64], Timeline]


def predict(
    graph: Graph,
    changes: Sequence[Strategy | str] = (),
    cluster: Cluster | None = None,
    question: Question | None = None,
) -> Prediction:
    """The step of the job after the changes, in turn. Without a cluster communication takes the
    time that it was recorded with."""
    question = question or Question()
    plan = tuple(parse(each) if isinstance(each, str) else each for each in changes)
    changed = transformed(typical(graph, finest(plan), elsewhere=cluster is not None), plan)
    if cluster is None:
        return _as_recorded(changed, plan, question)
    if cluster.workers != changed.world_size:
        cluster = cluster.with_workers(changed.world_size)
    changed = _slowed(on_one_lane(changed), cluster)
    rates = _rates(question, cluster)
    found = prices(changed, cluster, rates)
    run = _runner(changed, cluster, rates, found, question)
    made = _prediction(changed, found, run, plan, question)
    estimates = estimates_of(changed, rates.library_of(cluster))
    return replace(made, rests_on=(*made.rests_on, *estimates))


def finest(changes: Sequence[Strategy]) -> Grain:
    """The finest grain that any of the changes needs."""
    fine = any(change.grain is Grain.OP for change in changes)
    return Grain.OP if fine else Grain.EVENT


def typical(graph: Graph, grain: Grain = Grain.EVENT, *, elsewhere: bool = False) -> Graph:
    """What changes are made to: the typical recorded step as it runs without instruments. A graph
    of one step stands for itself."""
    if len(np.unique(graph.ops.step[graph.ops.step != NONE])) < 2:
        return graph
    return anchored(condense(graph, grain), elsewhere=elsewhere)


def _as_recorded(graph: Graph, changes: Sequence[Strategy], question: Question) -> Prediction:
    if question.machine is not None:
        raise PredictError(
            "shared cores need a cluster: give one, with the links between the workers"
        )
    missing = np.flatnonzero(graph.ops.dur_ns == UNPRICED)
    if len(missing):
        raise PredictError(
            f"{len(missing)} ops have no recorded duration after the changes, first "
            f"{graph[int(missing[0])]}: give a cluster (--cluster FILE), which prices them"
        )
    found = _recorded_prices(graph)
    contention = _contention(graph, question)
    return _prediction(
        graph, found, lambda dur: replay(graph, prices=dur, contention=contention), changes,
        question,
    )  # fmt: skip


def _recorded_prices(graph: Graph) -> Prices:
    spread = np.array([SPREAD[basis] for basis in Basis])[graph.ops.basis]
    dur = graph.ops.dur_ns
    low, high = (
        np.rint(each).astype(np.int64) for each in (dur / (1 + spread), dur * (1 + spread))
    )
    return Prices(dur, low.astype(np.int64), high.astype(np.int64), graph.ops.basis)


def _prediction(
    graph: Graph, found: Prices, run: Run, changes: Sequence[Strategy], question: Question
) -> Prediction:
    timeline = run(found.dur_ns)
    interval: Interval = interval_of(graph, found, works(graph))
    return Prediction(
        step_ns=step_ns(timeline),
        low_ns=step_ns(run(interval.low_ns)),
        high_ns=step_ns(run(interval.high_ns)),
        by_class=by_class(timeline),
        rests_on=reasons_of(graph, found, changes, question),
        workers=graph.world_size,
        timeline=timeline,
        drawn=_drawn(graph, found, question),
    )


def _drawn(graph: Graph, found: Prices, question: Question) -> Distribution | None:
    if not question.draws:
        return None
    if question.machine is not None:
        raise PredictError("draws on shared cores are not made; leave --cores or --draws out")
    priced = replace(graph, ops=replace(graph.ops, dur_ns=found.dur_ns))
    return replay_many(priced, question.draws, question.seed)


def _rates(question: Question, cluster: Cluster) -> Rates:
    """A calibration's library is gloo's: among GPUs alone it tells nothing of theirs."""
    if question.machine is not None:
        return library_of(question.machine)
    if question.calibration is None:
        return Rates()
    rates = question.calibration.rates()
    only_gpus = all(host.device.kind is DeviceKind.GPU for host in cluster.hosts)
    return replace(rates, library=None) if only_gpus else rates


def _runner(graph: Graph, cluster: Cluster, rates: Rates, found: Prices, question: Question) -> Run:
    machine = question.machine
    if machine is None:
        contention = _contention(graph, question)
        return lambda dur: replay(graph, prices=dur, contention=contention)
    shared = shared_of(graph, cluster, rates, found, machine)
    hosts = SharedHosts.one_machine(cluster.workers, machine.cores, shared.cpu_ns, shared.turn_ns)
    return lambda dur: replay(graph, prices=dur, hosts=hosts)


def _contention(graph: Graph, question: Question) -> Contention | None:
    made = question.calibration
    if made is None or made.overlap is None:
        return None
    return Contention.calibrated(graph, made.overlap)


def _slowed(graph: Graph, cluster: Cluster) -> Graph:
    """Work of workers whose host has less than a core for each takes longer."""
    dur = graph.ops.dur_ns.copy()
    for rank in graph.ranks:
        cpus = cluster.hosts[cluster.place_of(rank)[0]].cpus
        if 0 < cpus < 1:
            mine = (graph.ops.rank == rank) & works(graph) & (dur > 0)
            dur[mine] = np.rint(dur[mine] / cpus)
    return replace(graph, ops=replace(graph.ops, dur_ns=dur))
