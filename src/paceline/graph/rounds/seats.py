"""`Seat`: what one rank exchanges with its replicas; and the step without that exchange."""

from dataclasses import dataclass, replace

import numpy as np

from paceline.graph.condense.waits import LinkedStep
from paceline.graph.copy_back import copy_back
from paceline.graph.gradients import gradients_of, no_exchange, reducing
from paceline.graph.graph import Graph, Int64
from paceline.graph.hand_over import HandOver
from paceline.graph.kinds import NONE, Phase
from paceline.graph.links import Links
from paceline.graph.rounds.fragments import fragments_of
from paceline.graph.splice import Added, spliced


@dataclass(frozen=True)
class Seat:
    """A rank in a group of replicas."""

    rank: int
    group: int
    lane: int  # of its collectives
    dtype: int
    handed_over_ns: int  # what its thread takes to hand one over
    sizes: tuple[int, ...]  # bytes of each fragment of its weights


def apart(step: LinkedStep, fragments: int) -> tuple[LinkedStep, tuple[Seat, ...]]:
    """The step with every gradient left where it is, and the seats. Copies back from buckets stay,
    for DDP makes them all the same; they are communication, which does not grow with the batch."""
    graph, links = step.graph, Links.of(step.graph)
    calls = reducing(graph, links)
    if not len(calls):
        raise no_exchange(
            graph,
            "the recording does not say which collectives reduce gradients, or they already travel "
            "in another form, so they cannot be left out. Record a job under DDP with `paceline "
            "record`.",
        )
    handed = HandOver(graph, links)
    goes = handed.with_delays(calls)
    launches = handed.launches(goes)
    seats = tuple(_seats(graph, calls, launches, fragments))
    goes[launches] = True
    none = np.zeros(0, np.int64)
    alone = spliced(_copying(graph, links, calls), goes, Added(none, none, {}), links)
    place = np.where(goes, NONE, np.cumsum(~goes) - 1)
    before = step.before.moved(place)
    before = before.where((before.op != NONE) & (before.src != NONE))
    return LinkedStep(alone, before), seats


def _copying(graph: Graph, links: Links, calls: Int64) -> Graph:
    """What copies gradients back, as work of communication: no call says it of them any more."""
    phase = graph.ops.phase.copy()
    for rank in np.unique(graph.ops.rank[calls]).tolist():
        phase[copy_back(graph, links, calls[graph.ops.rank[calls] == rank]).work] = (
            Phase.COMMUNICATION
        )
    return replace(graph, ops=replace(graph.ops, phase=phase))


def _seats(graph: Graph, calls: Int64, launches: Int64, fragments: int) -> list[Seat]:
    ops, found = graph.ops, []
    pairs = dict.fromkeys(zip(ops.rank[calls].tolist(), ops.group[calls].tolist()))
    for rank, group in pairs:
        mine = calls[(ops.rank[calls] == rank) & (ops.group[calls] == group)]
        asks = ops.dur_ns[launches[ops.rank[launches] == rank]]
        found.append(
            Seat(
                rank=rank,
                group=group,
                lane=int(ops.lane[mine[0]]),
                dtype=int(ops.dtype[mine[0]]),
                handed_over_ns=round(float(asks.mean())) if len(asks) else 0,
                sizes=_sizes(graph, rank, int(ops.size_bytes[mine].sum()), fragments),
            )
        )
    return found


def _sizes(graph: Graph, rank: int, whole: int, fragments: int) -> tuple[int, ...]:
    """The rank's weights are as many bytes as its gradients; shared out by its parameters."""
    if fragments == 1:
        return (whole,)
    ready = gradients_of(graph)
    mine = np.unique(ready.parameter[graph.ops.rank[ready.op] == rank])
    of = [graph.facts.parameters[parameter].size_bytes for parameter in mine.tolist()]
    parts = [sum(of[i] for i in part) for part in fragments_of(of, fragments)]
    return tuple(part if sum(of) == whole else round(part * whole / sum(of)) for part in parts)


def renamed(graph: Graph, texts: tuple[str, ...]) -> tuple[Graph, dict[str, int]]:
    """The graph with these texts in its name pool, and where each lies."""
    first = len(graph.names)
    places = {text: first + at for at, text in enumerate(texts)}
    return replace(graph, names=(*graph.names, *texts)), places
