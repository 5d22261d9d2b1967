"""Is the network the bottleneck of this job? Its scaling factor over the links' rate.

Zhang et al., "Is Network the Bottleneck of Distributed Training?" (2020): the network is taken as
fully used, so that an all-reduce takes 2 S (N - 1) / N over the rate, and the time that ranks take
to add vectors where it was measured. The scaling factor is the step without communication over the
step with it. Calls cost nothing here; what the library adds to them is in the recorded factor.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.cluster import parse
from paceline.cost import NCCL, Curve, Library, Rates, prices
from paceline.graph import COMMUNICATION, UNPRICED, Collective, Graph
from paceline.graph.graph import Int64
from paceline.graph.one_lane import on_one_lane
from paceline.predict.classes import step_ns
from paceline.predict.errors import PredictError
from paceline.predict.predicting import typical
from paceline.replay import replay

GBIT = 10**9
RATES = tuple(gbit * GBIT for gbit in (1, 10, 25, 40, 100, 200, 400))
_UNLIMITED = 10**18
_SLOWEST = 10**6
_HALVINGS = 40


@dataclass(frozen=True)
class AtRate:
    """The job on links of one rate, all of it used."""

    bits_per_s: int
    scaling_factor: float
    compression: float  # by how much fewer bytes bring it to where the network stops mattering


@dataclass(frozen=True)
class Bottleneck:
    """How much of a step the network costs, now and at other rates."""

    workers: int
    alone_ns: int  # the step without communication
    recorded: float | None  # the scaling factor as recorded; None where the graph has no times
    best: float  # on links of any rate
    enough_bits_per_s: int  # the rate that is within `margin` of the best
    margin: float
    rates: tuple[AtRate, ...]


def bottleneck(
    graph: Graph,
    rates: Sequence[int] = RATES,
    additions: Curve | None = None,
    margin: float = 0.01,
) -> Bottleneck:
    """The job's scaling factors. `additions`: nanoseconds to add vectors, over their bytes."""
    job = _Job(on_one_lane(typical(graph, elsewhere=True)), additions)
    best = job.factor(_UNLIMITED)
    enough = _enough(job, best * (1 - margin))
    rows = tuple(AtRate(r, job.factor(r), max(1.0, enough / r)) for r in rates)
    return Bottleneck(graph.world_size, job.alone_ns, job.recorded(), best, enough, margin, rows)


class _Job:
    """A typical step, replayed on ideal networks."""

    def __init__(self, graph: Graph, additions: Curve | None) -> None:
        self.talks = np.isin(graph.ops.kind, COMMUNICATION)
        if not self.talks.any():
            raise PredictError(
                "no op of this job communicates, so no network can hold it up; record it on two "
                "workers or more"
            )
        self.graph = graph
        algorithms = {**NCCL.algorithms, Collective.ALL_REDUCE: "ring"}
        library = Library("ideal", algorithms, reduce=additions)
        self.rates = Rates(library=library)
        self.alone_ns = self._step_ns(np.where(self.talks, 0, graph.ops.dur_ns))

    def factor(self, bits_per_s: int) -> float:
        hosts = f"hosts: {self.graph.world_size}, link: {{rate: {bits_per_s}bps}}"
        found = prices(self.graph, parse(f"{{{hosts}}}"), self.rates)
        return self.alone_ns / self._step_ns(found.dur_ns)

    def recorded(self) -> float | None:
        dur = self.graph.ops.dur_ns
        return None if (dur == UNPRICED).any() else self.alone_ns / self._step_ns(dur)

    def _step_ns(self, dur_ns: Int64) -> int:
        return step_ns(replay(self.graph, prices=dur_ns.astype(np.int64)))


def _enough(job: _Job, wanted: float) -> int:
    """The lowest rate with that scaling factor."""
    low, high = _SLOWEST, _UNLIMITED
    for _ in range(_HALVINGS):
        middle = round((low * high) ** 0.5)
        low, high = (low, middle) if job.factor(middle) >= wanted else (middle, high)
    return high
