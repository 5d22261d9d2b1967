"""Rounds of clients that keep weights of their own; messages may travel behind later rounds."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.learn.algorithm import JudgedModel, Meeting, Peers, mean
from paceline.learn.carrier import Carrier, Parcel, PendingMean, Reformed, inboxes
from paceline.learn.client import Client
from paceline.learn.driver import Driver
from paceline.learn.errors import LearnError
from paceline.learn.message import SERVER, Message
from paceline.learn.record import ClientWork, Round, Trip
from paceline.learn.samples import Vector
from paceline.learn.task import Task

BROKEN = Message()
"""In place of a message with infinite numbers or none."""


class PeersRun(Driver):
    """Every client keeps weights; messages may travel behind later rounds."""

    def __init__(self, task: Task, carrier: Carrier) -> None:
        super().__init__(task, carrier)
        assert isinstance(task.algorithm, Peers)
        self.how = task.algorithm
        for client in self.mine.values():
            self.how.begin(self.at, client)
        self.under_way: deque[Any] = deque()
        self.merge_cpu_s = 0.0  # of this round

    def round(self, number: int) -> None:
        clients = tuple(range(len(self.task.partition)))
        everyone = tuple(n for n in clients if n not in self.gone)
        asked = set(self.task.chances.here(clients, self.task.seed, number))
        here = asked - self.left_out - self.gone
        self.steps += self.how.steps_of(next(iter(self.mine.values())))
        works, out = [], []
        for client in self.mine.values():
            if client.number in here:
                work, parcels = self._trained(client, everyone, number)
                works.append(work)
                out += parcels
        adds = self.carrier.sums and self.how.meeting is Meeting.MEAN
        self.under_way.append(self._summed(out) if adds else self.carrier.send(out))
        if len(self.under_way) > self.how.lag:
            came = self.under_way.popleft()
            came_in = came.mean() if adds else came.wait()
            began = time.thread_time()
            (self._take_mean if adds else self._take)(came_in, number)
            self.merge_cpu_s = time.thread_time() - began
        trips = [Trip(p.source, p.targets, p.message.size_bytes) for p in out]
        afterwards: list[Trip] = []
        mine = {n: client for n, client in self.mine.items() if n not in self.gone}
        self.how.after(self.at, mine, number, lambda sent: self._talk(sent, afterwards))
        broken = tuple(p.source for p in out if p.message is BROKEN)
        absent = tuple(n for n in everyone if n not in here and n not in self.left_out)
        all_trips = (*trips, *afterwards)
        found = Round(number, tuple(works), all_trips, absent, broken, merge_cpu_s=self.merge_cpu_s)
        self.kept(found, max(1, len(here)))

    def go_on(self, found: Reformed) -> int:
        """What was under way is lost."""
        self.under_way.clear()
        return super().go_on(found)

    def _trained(
        self, client: Client, everyone: Sequence[int], number: int
    ) -> tuple[ClientWork, list[Parcel]]:
        made, work = self.worked(client, lambda: self.how.train(self.at, client, number), number)
        if isinstance(made, Message):
            return work, [Parcel(client.number, tuple(everyone), made if made.sound else BROKEN)]
        sound = all(message.sound for message in made.values())
        return work, [
            Parcel(client.number, (peer,), message if sound else BROKEN)
            for peer, message in made.items()
            if peer in everyone
        ]

    def _summed(self, out: Sequence[Parcel]) -> PendingMean:
        self.left_out |= {p.source for p in out if p.message is BROKEN}
        sound = [p.message.vectors["mean"] for p in out if p.message is not BROKEN]
        return self.carrier.summed(sound, self.at.learner.size)

    def _take_mean(self, merged: Vector | None, number: int) -> None:
        for client in self.mine.values():
            if merged is not None and client.number not in self.left_out | self.gone:
                self.how.take(self.at, client, merged, number)

    def _take(self, came: Sequence[Parcel], number: int) -> None:
        """A client that sent infinite numbers or none is left out from then on."""
        self.left_out |= {p.source for p in came if not p.message.vectors}
        found = inboxes([p for p in came if p.message.vectors])
        if not any(found.values()):
            return
        merged: dict[tuple[int, ...], object] = {}
        for client in self.mine.values():
            inbox = found.get(client.number, {})
            key = tuple(map(id, inbox.values()))
            if inbox and client.number not in self.left_out | self.gone:
                if key not in merged:
                    merged[key] = self.how.merged(self.at, inbox)
                self.how.take(self.at, client, merged[key], number)

    def _talk(
        self, sent: Mapping[int, Mapping[int, Message]], trips: list[Trip]
    ) -> Mapping[int, Mapping[int, Message]]:
        """To those that are left out nobody listens."""
        parcels = [
            Parcel(source, (target,), message)
            for source, each in sent.items()
            if source not in self.left_out
            for target, message in each.items()
        ]
        trips += [Trip(p.source, p.targets, p.message.size_bytes, True) for p in parcels]
        return inboxes(self.carrier.send(parcels).wait())

    def model(self, number: int) -> JudgedModel | None:
        """The mean of all clients' weights."""
        out = [
            Parcel(n, (SERVER,), Message({"weights": client.weights}))
            for n, client in self.mine.items()
            if n not in self.left_out | self.gone
        ]
        came = self.carrier.send(out).wait()
        if not self.carrier.carries(SERVER):
            return None
        if not came:
            raise LearnError("all clients sent infinite numbers or none; give a smaller lr")
        return JudgedModel(mean([p.message.vectors["weights"] for p in came]))
