"""Draws in plain Python: the definition of `replay_many`."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.graph import Graph, Spread
from paceline.graph.graph import Int64
from paceline.replay.engine import Engine, replay
from paceline.replay.hosts import SharedHosts

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


@dataclass(frozen=True, eq=False)
class Draws:
    """What is drawn, and how often."""

    spread: Spread
    count: int
    seed: int
    interpolate: bool  # linearly between samples, instead of picking one


def draws_reference(
    graph: Graph,
    wanted: Draws,
    hosts: SharedHosts | None = None,
    engine: Engine = Engine.REFERENCE,
) -> tuple[Int64, NDArray[np.uint32]]:
    """Step time of each draw, and for each op in how many draws it was critical; each draw
    replayed by `engine`."""
    steps = np.zeros(wanted.count, np.int64)
    critical = np.zeros(len(graph), np.uint32)
    for draw in range(wanted.count):
        dur_ns = drawn_durations(graph, wanted, draw)
        timeline = replay(graph, prices=dur_ns, hosts=hosts, engine=engine)
        steps[draw] = timeline.step_ns
        critical[timeline.critical_path.ops] += 1
    return steps, critical


def drawn_durations(graph: Graph, wanted: Draws, draw: int) -> Int64:
    """The durations of one draw: 32 random bits an op say which of its samples it takes."""
    dur_ns = graph.ops.dur_ns.copy()
    spread, key = wanted.spread, _mix(wanted.seed + _GOLDEN * (draw + 1))
    for op in range(len(graph)):
        samples = spread.samples_ns[spread.ptr[op] : spread.ptr[op + 1]].tolist()
        if samples:
            bits = _mix(key + _GOLDEN * op) >> 32
            dur_ns[op] = _between(samples, bits) if wanted.interpolate else _pick(samples, bits)
    return dur_ns


def _pick(samples: list[int], bits: int) -> int:
    return samples[bits * len(samples) >> 32]


def _between(samples: list[int], bits: int) -> int:
    """Linear between neighbouring samples, rounded down to whole ns."""
    at, part = divmod(bits * (len(samples) - 1), 2**32)
    if not part:
        return samples[at]
    return samples[at] + ((samples[at + 1] - samples[at]) * part >> 32)


def _mix(x: int) -> int:
    """The finaliser of splitmix64: every bit of x changes about half the bits of the result."""
    x &= _MASK
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
    return x ^ (x >> 31)
