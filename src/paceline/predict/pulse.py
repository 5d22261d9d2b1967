"""Recorded work brought to the machine's pulse of another moment.

The same work takes longer while neighbours use the memory, or the host lowers its clock. What it
then takes is estimated from two pulses, between bounds.
"""

import numpy as np

from paceline.graph import Graph, LaneKind
from paceline.graph.graph import Bool
from paceline.graph.scaled import scaled, works
from paceline.machine import Brought, Pulse, at_pulse
from paceline.predict.interval import Interval

STILL = Brought(1.0, 1.0, 1.0)


def moved(recorded_at: Pulse | None, wanted: Pulse | None) -> Brought:
    """How many times as long work takes at the wanted pulse. One where either is not known."""
    if recorded_at is None or wanted is None:
        return STILL
    return at_pulse(1.0, recorded_at, wanted)


def brought(graph: Graph, by: Brought) -> Graph:
    """The graph with the work of its threads as long as it then takes."""
    return graph if by == STILL else scaled(graph, _by_threads(graph), by.ns)


def widened(interval: Interval, graph: Graph, by: Brought) -> Interval:
    """The interval of work, less certain by the bounds of what was moved."""
    if by == STILL:
        return interval
    busy = _by_threads(graph)
    low = np.where(busy, interval.low_ns * (by.least_ns / by.ns), interval.low_ns)
    high = np.where(busy, interval.high_ns * (by.most_ns / by.ns), interval.high_ns)
    return Interval(np.rint(low).astype(np.int64), np.rint(high).astype(np.int64))


def _by_threads(graph: Graph) -> Bool:
    """Work that the host's processors do: the pulse is theirs."""
    threads = np.isin(graph.lanes.kind, (LaneKind.THREAD, LaneKind.COMM_THREAD))
    return works(graph) & threads[graph.ops.lane]
