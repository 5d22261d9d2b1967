"""`Dispatcher`: batches what waits, deals it to free instances, and follows the load.

All decisions are made by values (`queue`, `dealing`, `load`, `following`); here they are carried
out. Everything runs on one event loop.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from paceline.errors import PacelineError
from paceline.serve.dealing import dealt
from paceline.serve.errors import BadRequest, Failed, Overloaded
from paceline.serve.fleet import Fleet, InstanceChange, Member
from paceline.serve.following import Decision, Move, followed
from paceline.serve.frames import Arrays
from paceline.serve.instance import InstanceDied
from paceline.serve.load import Load
from paceline.serve.metrics import Gauges, Metrics
from paceline.serve.plan import ServingPlan
from paceline.serve.profile import ServingProfile
from paceline.serve.queue import Piece, Queue, parted
from paceline.serve.requests import Request, gathered, handed_out
from paceline.serve.template import Template
from paceline.serve.topology import Topology

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rules:
    """How requests are batched, and how long things may take."""

    window_ns: int = 2_000_000  # that a request waits for others
    capacity: int = 512  # samples that may wait
    limit_s: float = 60.0  # for one batch; an instance that takes longer is ended
    pause_s: float = 1.0  # between two changes of plan
    tries: int = 2  # of a request whose instance died
    follows: bool = True


@dataclass(frozen=True)
class Planned:
    """What the dispatcher works by: a plan for each batch, and the times they rest on."""

    profile: ServingProfile
    topology: Topology
    plans: Mapping[int, ServingPlan]


class Dispatcher:
    """Answers requests with the instances of the plan that the load asks for."""

    def __init__(self, template: Template, planned: Planned, rules: Rules) -> None:
        self.metrics, self.load = Metrics(), Load()
        self._template, self._planned, self._rules = template, planned, rules
        self._queue = Queue(rules.capacity)
        self._requests: dict[int, Request] = {}
        self._numbers = count()
        self._running = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._changed_at = time.monotonic()
        self._changing = False

    async def start(self, plan: ServingPlan) -> None:
        self.plan = plan
        self.fleet = await self._fleet_of(plan)

    async def stop(self) -> None:
        await self.fleet.ended()
        for task in [*self._tasks]:
            task.cancel()

    @property
    def ready(self) -> bool:
        return self.fleet.ready > 0

    @property
    def gauges(self) -> Gauges:
        waiting, ready = self._queue.samples, self.fleet.ready
        return Gauges(waiting, self._running, ready, self.plan.batch, self.load.average)

    def take(self, inputs: Arrays, samples: int) -> Request:
        """A request, in the queue; its `parts` come as they are ready."""
        if self.fleet.lost:
            raise Overloaded("all instances died again and again; see the server's log")
        request = Request(next(self._numbers), inputs, samples)
        piece = Piece(request.number, 0, samples, time.monotonic_ns())
        self._queue = self._queue.offered(piece)
        self._requests[request.number] = request
        self._pump()
        return request

    def done(self, request: Request) -> None:
        """Forget it, answered or not; what of it still waits is not run."""
        self._requests.pop(request.number, None)
        self._queue = self._queue.without(request.number)

    def _pump(self) -> None:
        """Begin what can begin."""
        while free := self.fleet.free:
            room = sum(member.share.batch for member in free)
            whole = min(room, self.plan.batch)
            if not self._queue.due(whole, time.monotonic_ns(), self._rules.window_ns):
                self._wake_later()
                return
            self._look()  # which may leave the free ones with smaller shares
            pieces, self._queue = self._queue.taken(sum(member.share.batch for member in free))
            self._deal(pieces, free)

    def _deal(self, pieces: tuple[Piece, ...], free: Sequence[Member]) -> None:
        samples = sum(piece.samples for piece in pieces)
        profile = self._planned.profile
        many = len(self.fleet.members) > 1
        time_of = profile.crowded_ns if many else profile.alone_ns
        parts = dealt(samples, [member.share for member in free], time_of)
        for member, those in zip(free, parted(pieces, parts)):
            if those:
                member.busy = True
                self._begin(self._run(self.fleet, member, those))

    async def _run(self, fleet: Fleet, member: Member, pieces: tuple[Piece, ...]) -> None:
        samples = sum(piece.samples for piece in pieces)
        self._running += samples
        try:
            await self._answered(fleet, member, pieces)
        finally:
            self._running -= samples
            member.busy = False
            if fleet.retired:
                await member.instance.end()
            self._pump()

    async def _answered(self, fleet: Fleet, member: Member, pieces: tuple[Piece, ...]) -> None:
        known = tuple(piece for piece in pieces if piece.request in self._requests)
        if not known:
            return
        try:
            answer = await member.instance.run(gathered(self._requests, known), self._rules.limit_s)
        except InstanceDied as error:
            self._failed(known, Failed(f"{error}, as did another one before it, with this request"))
            return
        fleet.worked()
        self.metrics.batches += 1
        if answer.kind == "raised":
            self._raised(known, answer.facts["reason"])
            return
        for number, part in handed_out(known, answer.arrays):
            self.metrics.samples += part.end - part.first
            if request := self._requests.get(number):
                request.answers.put_nowait(part)

    def _raised(self, pieces: tuple[Piece, ...], reason: str) -> None:
        """The model's own error: alone it is the request's fault; else each is tried alone."""
        error = BadRequest(f"the model raised {reason}")
        if len({piece.request for piece in pieces}) == 1:
            self._refuse(pieces, error)
        else:
            self._queue = self._queue.returned(pieces)

    def _failed(self, pieces: tuple[Piece, ...], error: PacelineError) -> None:
        """Back into the queue, unless it has been tried often enough."""
        again = tuple(piece for piece in pieces if piece.failed + 1 < self._rules.tries)
        self._refuse([piece for piece in pieces if piece not in again], error)
        self._queue = self._queue.returned(again)

    def _refuse(self, pieces: Sequence[Piece], error: PacelineError) -> None:
        for number in {piece.request for piece in pieces}:
            if request := self._requests.get(number):
                request.answers.put_nowait(error)

    def _changed(self, change: InstanceChange) -> None:
        """What becomes of instances, when they die."""
        if change is InstanceChange.DIED:
            self.metrics.deaths += 1
            _log.warning("an instance died; it is replaced")
        elif change is InstanceChange.GIVEN_UP:
            _log.error("instances die again and again; this one is not replaced")
            if self.fleet.lost:
                lost = Failed("all instances died again and again; see the server's log")
                self._refuse(self._queue.pieces, lost)
        self._pump()

    def _fleet_of(self, plan: ServingPlan) -> Awaitable[Fleet]:
        return Fleet.started(self._template, self._planned.topology, plan, self._changed)

    def _look(self) -> None:
        """At the load, whenever a batch begins; change the plan where that is worth it."""
        self.load = self.load.seen(self._queue.samples + self._running)
        batch, now = self.load.batch, time.monotonic()
        waits = now - self._changed_at < self._rules.pause_s
        if not self._rules.follows or self._changing or waits or batch is None:
            return
        decision = followed(self._planned.profile, self.plan, self._planned.plans, batch)
        if decision.move is Move.STAY:
            return
        self._changed_at = now
        if decision.move is Move.RENEW:
            self._changing = True
            self._begin(self._renew(decision))
        else:
            self.plan = decision.plan
            self.fleet.dealt(decision.plan.shares)

    async def _renew(self, decision: Decision) -> None:
        """New instances warm up while the old ones serve; then those drain."""
        try:
            fleet = await self._fleet_of(decision.plan)
        except PacelineError as error:
            _log.error("the plan stays as it was, for new instances did not start: %s", error)
            return
        finally:
            self._changing, self._changed_at = False, time.monotonic()
        old, self.fleet, self.plan = self.fleet, fleet, decision.plan
        self.metrics.reconfigurations += 1
        _log.info("now %s for batches of %d", decision.plan, decision.plan.batch)
        self._pump()
        await old.ended()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _wake_later(self) -> None:
        """When the first in the queue has waited for its window."""
        if not self._queue.pieces or self._timer is not None:
            return
        due_ns = self._queue.pieces[0].arrived_ns + self._rules.window_ns
        delay_s = max(0.0, (due_ns - time.monotonic_ns()) / 1e9)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self._pump()
