"""Flows as training and the web make them: incast, rounds of parameter servers, web search."""

from dataclasses import dataclass

import numpy as np

from paceline.wire.errors import WireError
from paceline.wire.fabric.fabric import Fabric, Flow

WEB_SEARCH = (
    (0, 0.0), (10_000, 0.15), (20_000, 0.20), (30_000, 0.30), (50_000, 0.40), (80_000, 0.53),
    (200_000, 0.60), (1_000_000, 0.70), (2_000_000, 0.80), (5_000_000, 0.90), (10_000_000, 0.97),
    (30_000_000, 1.00),
)  # fmt: skip
"""Flow sizes in bytes and the share of flows up to each: the web search of DCTCP's paper, as later
simulations tabulate it."""


@dataclass(frozen=True)
class Tolerance:
    """What a flow of gradients may lose, and which share of its packets may be dropped last."""

    loss_budget: float = 0.0
    important: float = 1.0


def incast(
    senders: int,
    size_bytes: int,
    rounds: int = 1,
    period_ns: int = 0,
    tolerance: Tolerance = Tolerance(),
) -> list[Flow]:
    """Hosts 1 to `senders` each send host 0 the same amount at the same time, round after round."""
    return [
        Flow(sender, 0, size_bytes, turn * period_ns, 0, tolerance.loss_budget, tolerance.important)
        for turn in range(rounds)
        for sender in range(1, senders + 1)
    ]


@dataclass(frozen=True)
class Training:
    """Jobs of workers and one parameter server, each on hosts of its own."""

    workers: int = 8
    bucket_bytes: tuple[int, ...] = (1_000_000,) * 4  # in the order in which backward gives them
    backward_ns: int = 1_000_000  # from the first bucket to the last
    jitter_ns: int = 100_000  # how far the workers of a job drift apart
    rounds: int = 1
    period_ns: int = 20_000_000


def training(
    fabric: Fabric, job: Training, tolerance: Tolerance = Tolerance(), seed: int = 0
) -> list[Flow]:
    """As many jobs as the fabric has room for, on hosts drawn at random. Every worker pushes each
    bucket when backward has it; the front layers, which come last, have the first priority."""
    if job.workers + 1 > fabric.hosts:
        raise WireError(f"{job.workers} workers and a server need more than {fabric.hosts} hosts")
    random = np.random.default_rng(seed)
    hosts, size = random.permutation(fabric.hosts).tolist(), job.workers + 1
    flows = []
    for turn in range(job.rounds):
        for first in range(0, len(hosts) - size + 1, size):
            server, *workers = hosts[first : first + size]
            for worker in workers:
                late_ns = turn * job.period_ns + int(random.integers(job.jitter_ns + 1))
                flows += _pushed(job, worker, server, late_ns, tolerance)
    return flows


def _pushed(
    job: Training, worker: int, server: int, late_ns: int, tolerance: Tolerance
) -> list[Flow]:
    count = len(job.bucket_bytes)
    return [
        Flow(
            worker,
            server,
            size_bytes,
            late_ns + bucket * job.backward_ns // max(1, count - 1),
            min(7, count - 1 - bucket),
            tolerance.loss_budget,
            tolerance.important,
        )
        for bucket, size_bytes in enumerate(job.bucket_bytes)
    ]


def web(
    fabric: Fabric, load: float, count: int, tolerance: Tolerance = Tolerance(), seed: int = 0
) -> list[Flow]:
    """Flows between random hosts, arriving at random times so that the hosts' links carry `load`
    of what they can."""
    if not 0 < load < 1 or count < 1:
        raise WireError(f"a load of {load} with {count} flows; give a load between 0 and 1")
    random = np.random.default_rng(seed)
    sizes, shares = zip(*WEB_SEARCH)
    size_bytes = np.interp(random.random(count), shares, sizes).astype(np.int64).clip(1)
    mean_bytes = float(np.interp((np.arange(100_000) + 0.5) / 100_000, shares, sizes).mean())
    flows_per_s = load * fabric.hosts * fabric.host_bits_per_s / 8 / mean_bytes
    start_ns = (random.exponential(1e9 / flows_per_s, count).cumsum()).astype(np.int64)
    src = random.integers(fabric.hosts, size=count)
    dst = (src + random.integers(1, fabric.hosts, size=count)) % fabric.hosts
    return [
        Flow(s, d, size, start, 0, tolerance.loss_budget, tolerance.important)
        for s, d, size, start in zip(
            src.tolist(), dst.tolist(), size_bytes.tolist(), start_ns.tolist()
        )
    ]
