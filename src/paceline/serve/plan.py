"""`ServingPlan`: which instances serve a batch and how long that takes; plain choices beside it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.serve.errors import ServeError
from paceline.serve.knapsack import InstanceShare, Table, divided
from paceline.serve.profile import ServingProfile
from paceline.serve.topology import Topology

LATENCY_MODE_CORES = 4
"""Cores of an instance under `torch.backends.xeon.run_cpu --latency-mode`."""


@dataclass(frozen=True)
class ServingPlan:
    """Instances that do a batch together; it is done when the last of them is."""

    batch: int
    shares: tuple[InstanceShare, ...]
    latency_ns: float

    @property
    def threads(self) -> tuple[int, ...]:
        """What instances must run; plans that agree in it need no new ones."""
        return tuple(share.threads for share in self.shares)

    def __str__(self) -> str:
        return " + ".join(_told(share, self.shares.count(share)) for share in _distinct(self))


@dataclass(frozen=True)
class ServingChoice:
    """A choice by its name, and what it took where it was run."""

    name: str
    plan: ServingPlan
    runs_ns: tuple[float, ...] = ()


def best_plan(profile: ServingProfile, cores: int, batch: int) -> ServingPlan:
    """The fastest of the plans that were tried with this batch; where none was, the one of least
    latency by the profile's points."""
    profile.require(cores, batch)
    tried = [one for one in profile.tried if one.batch == batch and _cores_of(one.shares) <= cores]
    if not tried:
        return plan_by_points(profile, cores, batch)
    fastest = min(tried, key=lambda one: one.median_ns)
    return ServingPlan(batch, fastest.shares, fastest.median_ns)


def plan_by_points(profile: ServingProfile, cores: int, batch: int) -> ServingPlan:
    """The plan of least latency: one instance, which runs alone, or several, which crowd."""
    single = min(
        (single_instance(profile, threads, batch) for threads in range(1, cores + 1)),
        key=lambda plan: plan.latency_ns,
    )
    if cores == 1 or batch == 1:
        return single
    least, shares = divided(_crowded(profile, cores, batch), cores, batch)
    if len(shares) == 1 or single.latency_ns <= least:
        return single
    return ServingPlan(batch, shares, least)


def priced(profile: ServingProfile, shares: Sequence[InstanceShare]) -> ServingPlan:
    """Given instances, with the latency that the profile tells."""
    return ServingPlan(
        sum(share.batch for share in shares), tuple(shares), profile.batch_ns(shares)
    )


def single_instance(profile: ServingProfile, threads: int, batch: int) -> ServingPlan:
    return priced(profile, (InstanceShare(threads, batch),))


def plain_choices(
    profile: ServingProfile, topology: Topology, cores: int, batch: int
) -> Iterator[ServingChoice]:
    """What one would do without a search; parts of the batch as even as they can be."""
    yield ServingChoice("one instance on all cores", single_instance(profile, cores, batch))
    yield ServingChoice("one instance per core", _even(profile, [1] * cores, batch))
    nodes, physical = topology.nodes, min(cores, topology.physical)
    by_node = [max(1, physical // nodes)] * min(nodes, physical)
    yield ServingChoice(
        "torch's launcher (an instance per memory node)", _even(profile, by_node, batch)
    )
    by_four = [LATENCY_MODE_CORES] * (physical // LATENCY_MODE_CORES)
    if by_four:  # it starts no instance on fewer cores
        yield ServingChoice("torch's launcher, --latency-mode", _even(profile, by_four, batch))


def _even(profile: ServingProfile, threads: Sequence[int], batch: int) -> ServingPlan:
    parts = even_parts(batch, len(threads))
    return priced(profile, [InstanceShare(t, part) for t, part in zip(threads, parts) if part])


def even_parts(whole: int, count: int) -> tuple[int, ...]:
    """A whole in parts that differ by one at most, larger ones first."""
    if count < 1:
        raise ServeError(f"a batch cannot be divided among {count} instances; give 1 or more")
    few, more = divmod(whole, count)
    return tuple(few + (number < more) for number in range(count))


def _cores_of(shares: Sequence[InstanceShare]) -> int:
    return sum(share.threads for share in shares)


def _crowded(profile: ServingProfile, cores: int, batch: int) -> Table:
    table = np.full((cores + 1, batch + 1), np.inf)
    for threads in range(1, cores + 1):
        for samples in range(1, batch + 1):
            table[threads][samples] = profile.crowded_ns(threads, samples)
    return table


def _distinct(plan: ServingPlan) -> list[InstanceShare]:
    return sorted(set(plan.shares), reverse=True)


def _told(share: InstanceShare, count: int) -> str:
    threads = "1 thread" if share.threads == 1 else f"{share.threads} threads"
    return f"{count} x {threads}, {share.batch} each" if count > 1 else f"{threads}, {share.batch}"
