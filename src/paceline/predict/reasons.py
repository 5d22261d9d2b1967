"""What a prediction rests on, in words."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from paceline.cluster import Cluster
from paceline.cost import Prices
from paceline.cost.collectives import Library
from paceline.cost.domain import words
from paceline.cost.forecast import Constants
from paceline.cost.spreads import spread_of
from paceline.graph import COMMUNICATION, NONE, Basis, Collective, Graph
from paceline.graph.scaled import works
from paceline.graph.work import Family
from paceline.machine import Pulse, moved_between
from paceline.predict.prediction import Question
from paceline.predict.pulse import moved
from paceline.strategies import Strategy

STEADY: Final = 0.1
"""How far the machine's speed may move behind a calibration unsaid: its figures scatter so, too."""

_WORDS = {
    Basis.RECORDED: "recorded, the median of the recorded steps",
    Basis.MEASURED: "measured on this kind of device",
    Basis.FITTED: "a model fitted to measurements",
    Basis.SCALED: "recorded on another device, carried over by what both achieve",
    Basis.DATASHEET: "the device's datasheet and typical efficiency",
    Basis.ARITHMETIC: "recorded with other dimensions, carried over by its multiplications",
    Basis.FORECAST: "forecast from the device's datasheet and what other devices reached",
    Basis.WALL: "recorded by the wall clock alone, for the run time of threads is not known",
}
_CALLS = {
    **_WORDS,
    Basis.RECORDED: "as recorded",
    Basis.MEASURED: "measured on this kind of network",
    Basis.DATASHEET: "the links' datasheet",
    Basis.FORECAST: "within a host, forecast from what NCCL took on such hosts",
}


def reasons_of(
    graph: Graph, found: Prices | None, changes: Sequence[Strategy], question: Question
) -> tuple[str, ...]:
    basis = graph.ops.basis if found is None else found.basis
    talks = np.isin(graph.ops.kind, COMMUNICATION)
    busy = works(graph) & (graph.ops.dur_ns != 0)
    return (
        *(f"work: {_WORDS[b]}" for b in _bases(basis[busy])),
        *(f"communication: {_CALLS[b]}" for b in _bases(basis[talks])),
        *_of_forecasts(graph, found),
        *_unknown_sizes(graph),
        *(f"change: {change}" for change in changes),
        *_of_periods(graph),
        *_of_ranks(graph),
        *(line for change in changes for line in change.rests_on(graph)),
        *_of_constants(question),
        *_of_calibration(question, question.pulse or graph.facts.pulse),
        *_of_machine(graph, question),
        *_of_correction(question),
    )


def _of_forecasts(graph: Graph, found: Prices | None) -> Iterator[str]:
    """By class of forecast kernels, the longest first, how far they may be off; of kernels carried
    to another device the change says it."""
    if found is None or graph.facts.carried_to:
        return
    rows = np.flatnonzero((found.basis == Basis.FORECAST) & (graph.ops.work != NONE))
    family = np.array([*(each.work.family for each in graph.works), Family.OTHER])
    took = np.bincount(family[graph.ops.work[rows]], found.dur_ns[rows], len(Family))
    for at in np.argsort(-took, kind="stable")[: int((took > 0).sum())].tolist():
        yield (
            f"{Family(at).name.lower().replace('_', ' ')}, {took[at] / took.sum():.0%} of forecast "
            f"kernels: off by {spread_of(Basis.FORECAST, Family(at)):.0%} on devices left out"
        )


def _unknown_sizes(graph: Graph) -> Iterator[str]:
    talks = np.isin(graph.ops.kind, COMMUNICATION) & (graph.ops.collective != Collective.BARRIER)
    unknown = int((talks & (graph.ops.size_bytes == 0)).sum())
    if unknown:
        yield f"no bytes for {unknown} collectives and messages, whose sizes are not known"


def _of_periods(graph: Graph) -> Iterator[str]:
    if graph.facts.period > 1:
        yield f"the mean step of whole periods, of {graph.facts.period} steps each"


def _of_ranks(graph: Graph) -> Iterator[str]:
    if graph.facts.copies_of_one:
        yield "one rank was recorded; the others are taken to do the same work in the same time"
    if graph.facts.slowed_beside > 1:
        yield (
            f"kernels beside communication take {graph.facts.slowed_beside:.2f} times as long as "
            "alone, as in the recording"
        )


def _bases(basis: "np.ndarray[tuple[int], np.dtype[np.uint8]]") -> list[Basis]:
    return [Basis(b) for b in np.unique(basis)]


def estimates_of(graph: Graph, found: Prices, library: Library) -> tuple[str, ...]:
    """The library's own times, where communication is priced by it and they were not measured."""
    talks = np.isin(graph.ops.kind, COMMUNICATION) & (graph.ops.size_bytes > 0)
    by_library = talks & (found.basis == Basis.DATASHEET)
    if library.basis is not Basis.DATASHEET or not by_library.any():
        return ()
    return (
        f"an estimate, not measured here: {library.name} takes {library.call_ns / 1e3:g} us a call "
        f"and {library.message_ns / 1e3:g} us a message ({library.source}){_which(graph, found)}",
    )


def _which(graph: Graph, found: Prices) -> str:
    """Of which calls, where those within hosts are forecast."""
    talks = np.isin(graph.ops.kind, COMMUNICATION) & (graph.ops.size_bytes > 0)
    if not (talks & (found.basis == Basis.FORECAST)).any():
        return ""
    by_library = np.unique(graph.ops.collective[talks & (found.basis == Basis.DATASHEET)]).tolist()
    return ", for " + ", ".join(Collective(one).name.lower() for one in by_library)


def domains_of(
    graph: Graph, found: Prices, cluster: Cluster, constants: Constants | None = None
) -> Iterator[str]:
    """How far forecasts of collectives within hosts may be off."""
    talks = np.isin(graph.ops.kind, COMMUNICATION) & (graph.ops.size_bytes > 0)
    lanes = np.unique(graph.ops.lane[talks & (found.basis == Basis.FORECAST)])
    ranks = graph.lanes.rank[lanes].tolist()
    hosts = (cluster.hosts[cluster.place_of(rank)[0]] for rank in ranks)
    yield from dict.fromkeys(words(host, constants) for host in hosts)


def _of_constants(question: Question) -> Iterator[str]:
    made = question.constants
    if made is not None:
        yield f"forecasts by constants of {made.source}" + (f", {made.date}" if made.date else "")


def _of_calibration(question: Question, pulse: Pulse | None) -> Iterator[str]:
    made = question.calibration
    if made is None:
        return
    yield f"calibration: {made.machine}" + (f", {made.date}" if made.date else "")
    if other := made.doubt(question.here):
        yield other
    elif far := _of_another_pulse(made.pulse, pulse):
        yield far
    if question.machine is not None and made.shared is None:
        yield "the calibration has no shared cores (paceline measure --lab)"


def _of_another_pulse(measured_at: Pulse | None, asked: Pulse | None) -> str:
    """Where the machine was faster or slower when it was measured than the job has it."""
    if abs(moved(measured_at, asked).ns - 1) <= STEADY:
        return ""
    return (
        "the calibration is of another speed of the machine, against which "
        f"{moved_between(measured_at, asked)}: its figures may not hold; run `paceline measure` "
        "again"
    )


def _of_machine(graph: Graph, question: Question) -> Iterator[str]:
    machine = question.machine
    if machine is None:
        return
    yield f"machine: {machine.cores:g} cores, shared by all workers"
    longer = machine.crowded(graph.world_size) if graph.facts.cores else 1.0
    if longer > 1:
        yield f"work of more workers than cores takes {longer:.3g} times as long"
    if machine.together_ns and graph.world_size > machine.cores:
        yield f"the last of them begins a collective up to {machine.together_ns / 1e6:.2g} ms later"
    if machine.rested > 1:
        warm = f", for {machine.warm_ns / 1e6:.3g} ms of work" * (machine.warm_ns > 0)
        yield f"work after a rest of its thread takes {machine.rested:.3g} times as long{warm}"
    if question.shaped_links:
        yield "messages between stages, one by one on the cluster's links as the lab shapes them"
    if machine.defaults:
        told = ", ".join(f"{name} {getattr(machine, name):g}" for name in machine.defaults)
        yield f"defaults, measured on the machine of the published results and not here: {told}"


def _of_correction(question: Question) -> Iterator[str]:
    made = question.correction
    if made is not None:
        yield f"corrected by earlier runs: {made}"
        yield from made.rests_on
