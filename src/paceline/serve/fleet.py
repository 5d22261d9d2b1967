"""`Fleet`: the instances of a plan, kept at their number: one that dies is replaced."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Final

from paceline.serve.errors import ServeError
from paceline.serve.instance import Instance, InstanceDied
from paceline.serve.knapsack import InstanceShare
from paceline.serve.plan import ServingPlan
from paceline.serve.template import Template
from paceline.serve.topology import Topology, pinned

START_S: Final = 300.0
MOST_DEATHS: Final = 5
"""Instances that die one after the other, without one answer between, are replaced no more."""


class Member:
    """An instance with its share, and whether it is at work."""

    def __init__(self, instance: Instance, share: InstanceShare) -> None:
        self.instance, self.share = instance, share
        self.busy = False

    @property
    def lives(self) -> bool:
        return not self.instance.gone.is_set()


class Fleet:
    """Members that are ready, each place filled again where its instance dies. Made by `started`;
    `changed` is called whenever an instance died or was replaced."""

    def __init__(self, template: Template, changed: Callable[["InstanceChange"], None]) -> None:
        self.members: list[Member] = []
        self.retired = False
        self._template, self._changed = template, changed
        self._deaths = self._given_up = 0
        self._keepers: list[asyncio.Task[None]] = []

    @staticmethod
    async def started(
        template: Template,
        topology: Topology,
        plan: ServingPlan,
        changed: Callable[["InstanceChange"], None],
    ) -> "Fleet":
        """All instances of the plan, warm, one after the other: few cores are taken at once."""
        fleet = Fleet(template, changed)
        try:
            for share, processors in zip(plan.shares, pinned(topology, plan.threads)):
                fleet.members.append(await fleet._warm(share, processors))
        except BaseException:
            await fleet.ended()
            raise
        places = range(len(fleet.members))
        fleet._keepers = [asyncio.ensure_future(fleet._keep(place)) for place in places]
        return fleet

    @property
    def free(self) -> list[Member]:
        return [one for one in self.members if not one.busy and one.lives]

    @property
    def ready(self) -> int:
        return sum(one.lives for one in self.members)

    @property
    def lost(self) -> bool:
        """Whether no place will ever be filled again."""
        return self._given_up == len(self.members)

    def dealt(self, shares: Sequence[InstanceShare]) -> None:
        """Other parts of the batch for the same instances, in the order of their threads."""
        for member, share in zip(self.members, shares):
            member.share = share

    def worked(self) -> None:
        """An instance has answered: those that died before it were not the rule."""
        self._deaths = 0

    async def ended(self) -> None:
        """Each as soon as it has nothing to do; who uses a busy member ends it afterwards."""
        self.retired = True
        for keeper in self._keepers:
            keeper.cancel()
        idle = [one.instance.end() for one in self.members if not one.busy]
        await asyncio.gather(*idle)

    async def _keep(self, place: int) -> None:
        """Until the fleet retires, or instances die again and again."""
        while True:
            await self.members[place].instance.gone.wait()
            self._changed(InstanceChange.DIED)
            if not await self._filled(place):
                self._given_up += 1
                self._changed(InstanceChange.GIVEN_UP)
                return
            self._changed(InstanceChange.REPLACED)

    async def _filled(self, place: int) -> bool:
        dead = self.members[place]
        while self._deaths < MOST_DEATHS:
            self._deaths += 1
            with suppress(InstanceDied, ServeError):
                new = await self._warm(dead.share, dead.instance.processors)
                new.share, self.members[place] = self.members[place].share, new
                return True
        return False

    async def _warm(self, share: InstanceShare, processors: tuple[int, ...]) -> Member:
        instance = await self._template.instance(processors)
        try:
            await instance.warmed(share.batch, START_S)
        except BaseException:
            instance.kill()
            raise
        return Member(instance, share)


class InstanceChange(Enum):
    """What became of an instance."""

    DIED = "died"
    REPLACED = "replaced"
    GIVEN_UP = "given up"
