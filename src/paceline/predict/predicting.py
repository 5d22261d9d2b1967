"""`predict`: a recorded step, changed, on a cluster: how long it takes, and what that rests on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np

from paceline.cluster import Cluster
from paceline.cluster.machine import Machine
from paceline.cost import Library, Prices, Rates, calls_of, prices
from paceline.cost.on_recorded import priced_on_recorded
from paceline.cost.price import borders_of
from paceline.graph import COMMUNICATION, NONE, UNPRICED, DeviceKind, Graph
from paceline.graph.condense import STEPS, Grain, condense, condensed_ops, first_step, step_ops
from paceline.graph.facts import BlockHost
from paceline.graph.one_lane import on_one_lane
from paceline.graph.rank_steps import numbered
from paceline.graph.scaled import works
from paceline.measure.handling import UNHANDLED, Handling
from paceline.predict.anchor import anchored
from paceline.predict.classes import by_class, step_ns
from paceline.predict.correction import Leaning, corrected, leaning_of
from paceline.predict.crowd import crowded, uncrowded
from paceline.predict.errors import PredictError
from paceline.predict.held_back import held_back
from paceline.predict.interval import Interval, interval_of
from paceline.predict.late import late
from paceline.predict.prediction import Prediction, Question
from paceline.predict.pulse import brought, moved, widened
from paceline.predict.quotas import rests_on, seats, slowed
from paceline.predict.reasons import domains_of, estimates_of, reasons_of
from paceline.predict.rests import in_a_row
from paceline.predict.run import Replayer
from paceline.predict.shaped import on_shaped_links
from paceline.predict.sharing import On, Shared, library_of, shared_of
from paceline.predict.slowed import contention_of, relieved
from paceline.replay import Distribution, replay_many
from paceline.replay.hosts import SharedHosts
from paceline.strategies import Strategy, parse, transformed
from paceline.strategies.coded import Coded

_typicals: WeakKeyDictionary[Graph, dict[tuple[Grain, bool, bool], Graph | None]] = (
    WeakKeyDictionary()
)
"""Remembered as long as the graph: a search asks for the same step many times."""

_informed: WeakKeyDictionary[Graph, Graph] = WeakKeyDictionary()
"""The same of a job with what was measured last."""


def predict(
    graph: Graph,
    changes: Sequence[Strategy | str] = (),
    cluster: Cluster | None = None,
    question: Question | None = None,
) -> Prediction:
    """The step of the job after the changes, in turn. Without a cluster communication takes the
    time that it was recorded with."""
    question = question or Question()
    graph = informed(graph, question)
    plan = tuple(parse(each) if isinstance(each, str) else each for each in changes)
    plan = tuple(change.priced_by(question.constants) for change in plan)
    step = typical(graph, finest(plan), elsewhere=cluster is not None, waits=waits(question))
    step = relieved(step, graph, question)
    changed = transformed(as_asked(step, question), plan)
    at = placed(changed, cluster, question, plan)
    made = predicted(at, plan, question)
    if cluster is None or at.library is None:
        return made
    wide = cluster.with_workers(at.graph.world_size)
    domains = domains_of(at.graph, at.prices, wide, question.constants)
    estimates = estimates_of(at.graph, at.prices, at.library)
    costs = _of_codecs(graph, plan, cluster, question, made.step_ns)
    sheets = _unmeasured(wide)
    quotas = rests_on(wide)
    return replace(made, rests_on=(*made.rests_on, *domains, *estimates, *sheets, *quotas, *costs))


def _unmeasured(cluster: Cluster) -> Iterator[str]:
    """What was never measured of the devices that the workers run on."""
    devices = dict.fromkeys(host.device for host in cluster.hosts)
    yield from (f"{each.name}: {each.unmeasured}" for each in devices if each.unmeasured)


def _of_codecs(
    graph: Graph, plan: Sequence[Strategy], cluster: Cluster, question: Question, step_ns: int
) -> Iterator[str]:
    """Whether a codec costs more time on this cluster than it saves. A plan has one at most."""
    codec = next((change for change in plan if isinstance(change, Coded)), None)
    if codec is None:
        return
    others = [change for change in plan if change is not codec]
    without = predict(graph, others, cluster, replace(question, draws=0, lean=False))
    if without.step_ns < step_ns:
        told = f"{without.step_ns / 1e6:,.1f} ms without it, {step_ns / 1e6:,.1f} ms with it"
        yield f"{codec} costs you time here: a step of {told}"


def informed(graph: Graph, question: Question) -> Graph:
    """The job with what was measured for changes of it: of its operators in other variants, and of
    what FSDP2's host does on this machine."""
    made, machine = question.calibration, question.machine
    ratios, host = graph.facts.ratios, graph.facts.block_host
    if made is not None and made.ratios:
        ratios = made.ratios
    if machine is not None and machine.gathered_block_ns:
        host = _block_host(machine)
    if (ratios, host) == (graph.facts.ratios, graph.facts.block_host):
        return graph
    known = _informed.get(graph, graph)
    if (ratios, host) != (known.facts.ratios, known.facts.block_host):
        known = replace(graph, facts=replace(graph.facts, ratios=ratios, block_host=host))
        _informed[graph] = known
    return known


def _block_host(machine: Machine) -> BlockHost:
    return BlockHost(
        machine.gathered_block_ns,
        machine.gathered_weight_ns,
        machine.reduced_block_ns,
        machine.reduced_weight_ns,
    )


@dataclass(frozen=True, eq=False)
class Placed:
    """A job on a cluster, or as recorded: what its ops take there, and how it is replayed."""

    graph: Graph
    prices: Prices
    run: Replayer
    library: Library | None  # None: communication takes the time that it was recorded with


def placed(
    graph: Graph, cluster: Cluster | None, question: Question, plan: Sequence[Strategy] = ()
) -> Placed:
    """The job on the cluster; hosts are added where it has too few. `plan`: what was changed of it,
    which may say what else than the library carries its communication."""
    graph = crowded(graph, question.machine)
    if cluster is None:
        return as_recorded(graph, question)
    return on_cluster(on_one_lane(graph), cluster, question, plan)


def on_cluster(
    graph: Graph, cluster: Cluster, question: Question, plan: Sequence[Strategy] = ()
) -> Placed:
    """A job whose collectives stand on one lane of each rank."""
    _require_partners(graph)
    if cluster.workers != graph.world_size:
        cluster = cluster.with_workers(graph.world_size)
    if question.machine is None:
        graph = slowed(graph, cluster)
    elif seats(cluster, question.machine).crowded:
        graph = late(graph, question.machine)
    rates = rates_of(question, cluster)
    rates = replace(rates, carriers={k: v for change in plan for k, v in change.carriers().items()})
    library = rates.library_of(cluster)
    calls = calls_of(graph, cluster, library)
    found = corrected(graph, prices(graph, cluster, rates, calls), question.correction)
    taken = partial(shared_of, graph, calls, library, carried=frozenset(rates.carriers))
    run = _runner(graph, taken, cluster, question)
    if question.shaped_links:
        run = _on_links(run, cluster, question)
    return Placed(graph, found, run, library)


def _on_links(run: Replayer, cluster: Cluster, question: Question) -> Replayer:
    if question.machine is None:
        raise PredictError("messages on shaped links need a machine that carries them")
    return on_shaped_links(run, cluster, question.machine)


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
            "be priced for a cluster. Import the traces of all ranks; of a data-parallel job one "
            "rank can stand for all with --workers."
        )


def as_asked(step: Graph, question: Question) -> Graph:
    """The typical step at the asked pulse, its work as long as without the rests that it had, and
    with a core for each worker."""
    at_pulse = brought(step, moved(step.facts.pulse, question.pulse))
    return uncrowded(in_a_row(at_pulse, question.machine), question.machine)


def finest(changes: Sequence[Strategy]) -> Grain:
    """The finest grain that any of the changes needs."""
    return min((change.grain for change in changes), key=list(Grain).index, default=Grain.EVENT)


def waits(question: Question) -> bool:
    """Whether threads wait for cores as they did, rather than as a model of shared cores says."""
    return question.machine is None


def typical(
    graph: Graph, grain: Grain = Grain.EVENT, *, elsewhere: bool = False, waits: bool = True
) -> Graph:
    """What changes are made to: the typical recorded step as it runs without instruments. A graph
    of one step stands for itself, and one whose steps overlap. Where it is not carried elsewhere,
    its threads have the cores that they had, if they are to wait for them as they did."""
    made = _typicals.setdefault(graph, {})
    sort = (grain, elsewhere, waits and not elsewhere)
    if sort not in made:
        made[sort] = _typical(graph, *sort)
    return made[sort] or graph


def ops_beyond(graph: Graph, most: int) -> int:
    """How many ops, at least, the job's typical step is replayed as, op by op, if that is more than
    `most`; else 0. It is not condensed for that."""
    if _stands_for_itself(graph):
        return len(graph) if len(graph) > most else 0
    shortest, longest = (STEPS * ops for ops in step_ops(graph))
    if longest <= most or shortest > most:
        return shortest if shortest > most else 0
    found = condensed_ops(graph)
    return found if found > most else 0


def _stands_for_itself(graph: Graph) -> bool:
    steps = graph.ops.step
    return graph.facts.steps_overlap or len(numbered(steps[steps != NONE])[0]) < 2


def _typical(graph: Graph, grain: Grain, elsewhere: bool, waits: bool) -> Graph | None:
    """None where the graph stands for itself."""
    if _stands_for_itself(graph):
        return None
    step = condense(graph, grain)
    return anchored(held_back(step, graph) if waits else step, elsewhere=elsewhere)


def as_recorded(graph: Graph, question: Question) -> Placed:
    """A job whose ops take as long as they were recorded to."""
    _require_cluster(graph, question)
    graph = priced_on_recorded(graph, question.constants)
    missing = np.flatnonzero(graph.ops.dur_ns == UNPRICED)
    if len(missing):
        raise PredictError(
            f"{len(missing)} ops have no recorded duration after the changes, first "
            f"{graph[int(missing[0])]}: give a cluster (--cluster FILE), which prices them"
        )
    found = corrected(graph, _recorded_prices(graph), question.correction)
    run = Replayer(graph, contention=contention_of(graph, question))
    if question.machine is not None:
        hosts = SharedHosts.one_machine(graph.world_size, question.machine.cores)
        run = Replayer(graph, hosts=hosts, rests=question.machine.rests)
    return Placed(graph, found, run, None)


def _require_cluster(graph: Graph, question: Question) -> None:
    """What communication of a group takes of shared cores, its links tell. Messages without one
    keep their time, and what they take of the cores is drawn as ops."""
    grouped = np.isin(graph.ops.kind, COMMUNICATION) & (graph.ops.group != NONE)
    if question.machine is not None and grouped.any():
        raise PredictError(
            "shared cores need a cluster: give one, with the links between the workers"
        )
    if question.shaped_links:
        raise PredictError("messages on shaped links need a cluster, which has the links")


def _recorded_prices(graph: Graph) -> Prices:
    dur, basis = graph.ops.dur_ns, graph.ops.basis
    return Prices(dur, basis, partial(borders_of, graph, basis, dur))


def predicted(at: Placed, changes: Sequence[Strategy], question: Question) -> Prediction:
    """The step of a changed job that has its place, with its interval."""
    graph, found, run = at.graph, at.prices, at.run
    timeline = run(found.dur_ns)
    by = moved(graph.facts.pulse, question.pulse)
    interval: Interval = widened(interval_of(graph, found, works(graph)), graph, by)
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
        pulse=graph.facts.pulse and (question.pulse or graph.facts.pulse),
        leans=_leans(graph, found, run) if question.lean else None,
        correction=question.correction,
        prices=found,
        run=run,
    )


def _leans(graph: Graph, found: Prices, run: Replayer) -> Leaning:
    return leaning_of(graph, found.dur_ns, lambda dur_ns: step_ns(run(dur_ns)))


def _drawn(graph: Graph, found: Prices, run: Replayer, question: Question) -> Distribution | None:
    """The first step alone, drawn from its ops' samples."""
    if not question.draws:
        return None
    if graph.facts.period > 1:
        raise PredictError(
            f"draws are of one step, and this job repeats itself every {graph.facts.period} steps; "
            "leave --draws out"
        )
    if run.contention is not None:
        raise PredictError(
            "draws do not know how compute and communication that overlap slow each other; leave "
            "--draws or --calibration out"
        )
    if run.transfers is not None or run.rests.cost or graph.facts.steps_overlap:
        raise PredictError(
            "draws are of one step alone, whose messages are priced: neither steps that overlap "
            "nor messages on shaped links nor what rests cost can be drawn; leave --draws out"
        )
    priced = replace(graph, ops=replace(graph.ops, dur_ns=found.dur_ns))
    first = np.flatnonzero(graph.ops.step == graph.ops.step.min())
    hosts = run.hosts.renumbered(first) if run.hosts else None
    return replay_many(first_step(priced), question.draws, question.seed, hosts=hosts)


def rates_of(question: Question, cluster: Cluster) -> Rates:
    return replace(_measured_rates(question, cluster), constants=question.constants)


def _measured_rates(question: Question, cluster: Cluster) -> Rates:
    """A calibration's library is gloo's: among GPUs alone it tells nothing of theirs."""
    if question.machine is not None:
        made = question.calibration
        tables = {} if made is None else made.crowded_kernels()
        return replace(library_of(question.machine), kernels=tables)
    if question.calibration is None:
        return Rates()
    rates = question.calibration.rates()
    only_gpus = all(host.device.kind is DeviceKind.GPU for host in cluster.hosts)
    return replace(rates, library=None) if only_gpus else rates


def _runner(
    graph: Graph, taken: Callable[[On, Handling], Shared], cluster: Cluster, question: Question
) -> Replayer:
    machine = question.machine
    if machine is None:
        return Replayer(graph, contention=contention_of(graph, question))
    made = question.calibration
    handling = (made.handling if made else None) or UNHANDLED
    shared = taken(On(machine, cluster), handling)
    hosts = seats(cluster, machine).hosts(graph, shared)
    return Replayer(graph, hosts=hosts, rests=machine.rests)
