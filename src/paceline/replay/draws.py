"""`replay_many`: the step time as a distribution, from durations that vary.

Each draw gives every op that has samples a duration of its own and replays the whole graph.
Random numbers are a function of (seed, draw, op): the same on any number of threads.
"""

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from paceline.engine import native
from paceline.errors import ReplayError
from paceline.graph import Graph, Spread
from paceline.graph.graph import Int64
from paceline.machine import usable_cores
from paceline.replay.draws_reference import Draws, draws_reference
from paceline.replay.engine import Engine, chosen_engine, shared_of
from paceline.replay.hosts import SharedHosts
from paceline.replay.job import ReplayJob, Shares
from paceline.replay.program import program


class Sampling(Enum):
    """How a duration is drawn from an op's samples."""

    PICK = "pick"  # one of the samples, each as likely: the bootstrap
    QUANTILES = "quantiles"  # samples are evenly spaced quantiles; between two, linearly


@dataclass(frozen=True, eq=False)
class Distribution:
    """Step times of all draws, and how often each op lay on the critical path."""

    steps_ns: Int64
    critical_probability: NDArray[np.float64]

    @cached_property
    def mean_ns(self) -> float:
        return float(np.mean(self.steps_ns))

    @cached_property
    def median_ns(self) -> float:
        return float(np.median(self.steps_ns))

    @cached_property
    def p5_ns(self) -> float:
        return float(np.percentile(self.steps_ns, 5))

    @cached_property
    def p95_ns(self) -> float:
        return float(np.percentile(self.steps_ns, 95))


def replay_many(
    graph: Graph,
    draws: int,
    seed: int = 0,
    *,
    sampling: Sampling = Sampling.PICK,
    hosts: SharedHosts | None = None,
    threads: int | None = None,
    engine: Engine | None = None,
) -> Distribution:
    """Replay `draws` times; without `threads` on every core that this process may use. `hosts` are
    those of `replay`."""
    if draws < 1 or not 0 <= seed < 2**64 or (threads is not None and threads < 1):
        raise ReplayError(
            f"draws and threads must be at least 1 and the seed 0 to 2^64-1; given are "
            f"{draws} draws, {threads} threads, seed {seed}"
        )
    job = ReplayJob.of(graph, graph.ops.dur_ns, Shares(hosts=hosts))
    wanted = Draws(_checked_spread(job, sampling), draws, seed, sampling is Sampling.QUANTILES)
    chosen = chosen_engine(engine)
    if chosen is not Engine.NATIVE:
        steps, critical = draws_reference(graph, wanted, hosts, chosen)
    else:
        steps, critical = _native(job, wanted, threads or usable_cores())
    return Distribution(steps, critical / draws)


def _native(job: ReplayJob, wanted: Draws, threads: int) -> tuple[Int64, NDArray[np.uint32]]:
    core = native()
    assert core is not None, "chosen_engine names NATIVE only where it was built"
    graph, spread, shared = job.graph, wanted.spread, shared_of(job)
    columns = (
        job.dur_ns,
        graph.ops.priority,
        graph.deps.ptr,
        graph.deps.src,
        spread.ptr,
        spread.samples_ns,
    )
    steps, critical = core.draws(
        program(graph, events=shared is not None),
        *map(np.ascontiguousarray, columns),
        wanted.interpolate,
        wanted.seed,
        wanted.count,
        min(wanted.count, threads),
        shared,
    )
    if (steps < 0).any():
        raise ReplayError(f"draw {int(np.argmin(steps))} is stuck; replay the graph to see where")
    return steps, critical


def _checked_spread(job: ReplayJob, sampling: Sampling) -> Spread:
    graph, spread = job.graph, job.graph.spread
    if spread is None or not len(spread.samples_ns):
        raise ReplayError(
            "no op has samples of its duration, so every draw would be the same; record several "
            "steps, or give the graph a Spread"
        )
    owner = np.repeat(np.arange(len(graph)), np.diff(spread.ptr))
    if spread.samples_ns.min() < 0:
        op = graph[int(owner[np.argmin(spread.samples_ns)])]
        raise ReplayError(f"{op} has a sample of {spread.samples_ns.min()} ns, which is negative")
    longest = graph.ops.dur_ns.copy()
    np.maximum.at(longest, owner, spread.samples_ns)
    ReplayJob.of(graph, longest, job.shares)
    if sampling is Sampling.PICK:
        return spread
    order = np.lexsort((spread.samples_ns, owner))
    return Spread(spread.ptr, spread.samples_ns[order])
