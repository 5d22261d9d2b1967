"""Measures a model's profile: few points, each several times, in rounds that take turns.

Rounds visit all points in random order, so that a machine that drifts makes no curve bend. What
cannot be part of any plan is left out: an instance that takes longer for a part of the batch than
all cores take for the whole.

Last, for each size of batch the plan by these points and the plain choices are run in turn.
"""

import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from statistics import median
from typing import Final

from paceline.serve.instance import Instance
from paceline.serve.knapsack import InstanceShare
from paceline.serve.plan import plain_choices, plan_by_points
from paceline.serve.points import Point
from paceline.serve.profile import Fingerprint, ServingProfile, sizes
from paceline.serve.template import Template
from paceline.serve.together import enough, several, together_ns
from paceline.serve.topology import Topology, pinned
from paceline.serve.tried import Tried

TRIES: Final = 7
"""Turns of each division that is tried, at most."""


@dataclass(frozen=True)
class Reach:
    """What is profiled: up to so many cores and samples, in so many rounds."""

    cores: int
    batch: int
    rounds: int = 5


@dataclass(frozen=True)
class Spot:
    """A point to be measured."""

    threads: int
    batch: int
    crowded: bool


async def profiled(
    template: Template,
    fingerprint: Fingerprint,
    topology: Topology,
    reach: Reach,
    said: Callable[[str], None],
) -> ServingProfile:
    """All points of the reach."""
    async with _groups(template, topology, reach.cores) as groups:
        spots = await _worth_measuring(groups, reach)
        runs: dict[Spot, list[float]] = {spot: [] for spot in spots}
        order = random.Random(0)
        for turn in range(reach.rounds):
            left = [spot for spot in spots if not enough(runs[spot])]
            said(f"round {turn + 1} of {reach.rounds}: {len(left)} points")
            for spot in order.sample(left, len(left)):
                runs[spot] += await _measured(groups[spot.threads], spot)
    points = tuple(Point.of(s.threads, s.batch, runs[s], s.crowded) for s in spots)
    date = datetime.now(timezone.utc).isoformat(timespec="seconds")
    found = ServingProfile(fingerprint, reach.cores, reach.batch, points, date)
    said("plans and plain choices in turn")
    return replace(found, tried=await _tried(template, topology, found))


Teams = dict[tuple[int, ...], list[Instance]]
"""Instances that do a batch together, by their threads."""


async def _tried(
    template: Template, topology: Topology, profile: ServingProfile
) -> tuple[Tried, ...]:
    """Of each size of batch, what its plan and the plain choices take; a single choice is none."""
    found = []
    async with AsyncExitStack() as stack:
        teams: Teams = {}
        for batch in sizes(profile.batch):
            choices = [plan_by_points(profile, profile.cores, batch)]
            choices += [r.plan for r in plain_choices(profile, topology, profile.cores, batch)]
            divisions = list(dict.fromkeys(tuple(sorted(c.shares, reverse=True)) for c in choices))
            if len(divisions) == 1:
                continue
            for shares in divisions:
                threads = tuple(share.threads for share in shares)
                if threads not in teams:
                    started = template.instances(pinned(topology, threads))
                    teams[threads] = await stack.enter_async_context(started)
            found += await _in_turn(teams, divisions)
    return tuple(found)


async def _in_turn(teams: Teams, divisions: Sequence[tuple[InstanceShare, ...]]) -> list[Tried]:
    """Each once uncounted, then by turns until each has run often or long enough."""
    runs: dict[tuple[InstanceShare, ...], list[float]] = {shares: [] for shares in divisions}
    for turn in range(TRIES + 1):
        for shares in divisions:
            if enough(runs[shares]):
                continue
            team = teams[tuple(share.threads for share in shares)]
            took = await several(team, [share.batch for share in shares])
            runs[shares] += took if turn else []
    return [Tried(shares, median(each), len(each)) for shares, each in runs.items()]


async def measured_plan(
    template: Template, topology: Topology, shares: Sequence[InstanceShare]
) -> list[float]:
    """A plan's instances, started, warmed and timed together, batch after batch."""
    processors = pinned(topology, [share.threads for share in shares])
    async with template.instances(processors) as instances:
        parts = [share.batch for share in shares]
        await together_ns(instances, parts)
        return await several(instances, parts, 3)


Groups = dict[int, list[Instance]]
"""Instances by their threads: as many as the cores allow."""


@asynccontextmanager
async def _groups(template: Template, topology: Topology, cores: int) -> AsyncIterator[Groups]:
    counts = {threads: cores // threads for threads in sizes(cores)}
    wanted = [p for t, count in counts.items() for p in pinned(topology, [t] * count)]
    async with template.instances(wanted) as instances:
        left = iter(instances)
        yield {threads: [next(left) for _ in range(count)] for threads, count in counts.items()}


async def _worth_measuring(groups: Groups, reach: Reach) -> list[Spot]:
    """Each spot is run once, which warms its instances up, until one takes too long."""
    limit, found = float("inf"), list[Spot]()
    for threads in sorted(groups, reverse=True):
        for spot in _spots(threads, len(groups[threads]), reach):
            took = await _once(groups[threads], spot)
            found.append(spot)
            if threads == reach.cores:
                limit = took if spot.batch == reach.batch else limit
            elif took > 2 * limit:  # a first run, and noise
                break
    return found


def _spots(threads: int, instances: int, reach: Reach) -> Iterator[Spot]:
    """Smaller batches first. Among neighbours no more than twice the even part of the batch."""
    crowded = min(reach.batch, max(1, 2 * reach.batch // max(1, instances)))
    for batch in sizes(reach.batch):
        yield Spot(threads, batch, False)
        if instances > 1 and batch <= crowded:
            yield Spot(threads, batch, True)


async def _once(group: Sequence[Instance], spot: Spot) -> float:
    """The second run counts: the first makes code for the shape."""
    members = group if spot.crowded else group[:1]
    await together_ns(members, [spot.batch] * len(members))
    return await together_ns(members, [spot.batch] * len(members))


async def _measured(group: Sequence[Instance], spot: Spot) -> list[float]:
    """Runs of one round."""
    members = group if spot.crowded else group[:1]
    return await several(members, [spot.batch] * len(members))
