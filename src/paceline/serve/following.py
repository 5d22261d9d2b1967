"""Which plan the load asks for, and whether it is worth new instances."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from paceline.serve.dealing import dealt
from paceline.serve.knapsack import InstanceShare
from paceline.serve.plan import ServingPlan
from paceline.serve.profile import ServingProfile

WORTH: Final = 0.05
"""New instances take cores while they warm up: they must make the batch faster by this share."""


class Move(Enum):
    """What to do about the load."""

    STAY = "stay"
    DEAL_OTHERWISE = "deal otherwise"  # the same instances, other parts of the batch
    RENEW = "renew"  # other instances


@dataclass(frozen=True)
class Decision:
    move: Move
    plan: ServingPlan


def followed(
    profile: ServingProfile, now: ServingPlan, plans: Mapping[int, ServingPlan], batch: int
) -> Decision:
    """The best plan for the batch, if it beats the present instances by enough."""
    wanted = plans[min(plans, key=lambda size: (abs(size - batch), size))]
    if wanted.shares == now.shares:
        return Decision(Move.STAY, now)
    kept = dealt_anew(profile, now, wanted.batch)
    if wanted.threads == now.threads:
        return Decision(Move.DEAL_OTHERWISE, wanted)
    if wanted.latency_ns < (1 - WORTH) * kept.latency_ns:
        return Decision(Move.RENEW, wanted)
    return Decision(Move.STAY if kept.batch == now.batch else Move.DEAL_OTHERWISE, kept)


def dealt_anew(profile: ServingProfile, plan: ServingPlan, batch: int) -> ServingPlan:
    """The same instances with another batch. Each keeps room for a sample at least, so that one
    which the batch leaves without work can still take what comes next."""
    time = profile.alone_ns if len(plan.shares) == 1 else profile.crowded_ns
    parts = dealt(batch, [InstanceShare(share.threads, batch) for share in plan.shares], time)
    shares = tuple(
        InstanceShare(one.threads, max(1, part)) for one, part in zip(plan.shares, parts)
    )
    working = [InstanceShare(one.threads, part) for one, part in zip(plan.shares, parts) if part]
    return ServingPlan(batch, shares, profile.batch_ns(working))
