"""`predict`: a recorded step, changed, on a cluster: how long it takes, and what that rests on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.cluster import Cluster
from paceline.cost import SPREAD, Library, Prices, Rates, prices
from paceline.graph import COMMUNICATION, NONE, UNPRICED, Basis, DeviceKind, Graph
from paceline.graph.condense import Grain, condense, first_step
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


@dataclass(frozen=True, eq=False)
class Run:
    """A replay that has yet to be told how long each op takes."""

    graph: Graph
    contention: Contention | None = None
    hosts: SharedHosts | None = None

    def __call__(self, dur_ns: Int64) -> Timeline:
        return replay(self.graph, prices=dur_ns, contention=self.contention, hosts=self.hosts)


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
    at = placed(changed, cluster, question)
    made = _prediction(at.graph, at.prices, at.run, plan, question)
    return replace(made, rests_on=(*made.rests_on, *estimates_of(at.graph, at.library)))


@dataclass(frozen=True, eq=False)
class Placed:
    """A job on a cluster: what its ops take there, and how it is replayed."""

    graph: Graph
    prices: Prices
    run: Run
    library: Library


def placed(graph: Graph, cluster: Cluster, question: Question) -> Placed:
    """The job on the cluster; hosts are added where it has too few."""
    _require_partners(graph)
    if cluster.workers != graph.world_size:
        cluster = cluster.with_workers(graph.world_size)
    graph = _slowed(on_one_lane(graph), cluster)
    rates = _rates(question, cluster)
    found = prices(graph, cluster, rates)
    run = _runner(graph, cluster, rates, question)
    return Placed(graph, found, run, rates.library_of(cluster))


def _require_partners(graph: Graph) -> None:
    """Communication with ranks that nobody imported has no price."""
    if len(graph.ranks) == graph.world_size:
        return
    used = np.unique(graph.ops.group[np.isin(graph.ops.kind, COMMUNICATION)])
    alone = [graph.groups[g] for g in used.tolist() if g != NONE and len(graph.groups[g].ranks) < 2]
    if alone:
        raise PredictError(
            f"the graph holds {len(graph.ranks)} of the job's {graph.world_size} ranks, and of "
            f"group {alone[0].name!r} only rank {alone[0].ranks[0]}, so its communication cannot "
            "be priced for a cluster. Import the traces of all ranks."
        )


def finest(changes: Sequence[Strategy]) -> Grain:
    """The finest grain that any of the changes needs."""
    return min((change.grain for change in changes), key=list(Grain).index, default=Grain.EVENT)


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
    run = Run(graph, contention=_contention(graph, question))
    return _prediction(graph, found, run, changes, question)


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
        samples=graph.facts.samples,
        timeline=timeline,
        drawn=_drawn(graph, found, run, question),
    )


def _drawn(graph: Graph, found: Prices, run: Run, question: Question) -> Distribution | None:
    """The first step alone, drawn from its ops' samples."""
    if not question.draws:
        return None
    if run.contention is not None:
        raise PredictError(
            "draws do not know how compute and communication that overlap slow each other; leave "
            "--draws or --calibration out"
        )
    priced = replace(graph, ops=replace(graph.ops, dur_ns=found.dur_ns))
    first = np.flatnonzero(graph.ops.step == graph.ops.step.min())
    hosts = run.hosts.renumbered(first) if run.hosts else None
    return replay_many(first_step(priced), question.draws, question.seed, hosts=hosts)


def _rates(question: Question, cluster: Cluster) -> Rates:
    """A calibration's library is gloo's: among GPUs alone it tells nothing of theirs."""
    if question.machine is not None:
        return library_of(question.machine)
    if question.calibration is None:
        return Rates()
    rates = question.calibration.rates()
    only_gpus = all(host.device.kind is DeviceKind.GPU for host in cluster.hosts)
    return replace(rates, library=None) if only_gpus else rates


def _runner(graph: Graph, cluster: Cluster, rates: Rates, question: Question) -> Run:
    machine = question.machine
    if machine is None:
        return Run(graph, contention=_contention(graph, question))
    shared = shared_of(graph, cluster, rates, machine)
    hosts = SharedHosts.one_machine(cluster.workers, machine.cores, shared.cpu_ns, shared.turn_ns)
    return Run(graph, hosts=hosts)


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
