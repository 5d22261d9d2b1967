"""Rounds of clients that meet at a server, which worker 0 carries."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from paceline.learn.algorithm import JudgedModel, Served
from paceline.learn.carrier import Carrier, Parcel
from paceline.learn.driver import Driver
from paceline.learn.message import SERVER, Message
from paceline.learn.record import ClientWork, Round, Trip
from paceline.learn.task import Task


class Answers(NamedTuple):
    """What clients of this worker did and sent, and what came to the server."""

    works: Sequence[ClientWork]
    ups: Sequence[Parcel]
    came: Sequence[Parcel]


class ServedRun(Driver):
    """Clients meet at the server, on worker 0."""

    def __init__(self, task: Task, carrier: Carrier) -> None:
        super().__init__(task, carrier)
        assert isinstance(task.algorithm, Served)
        self.how = task.algorithm
        self.server = self.how.open(self.at) if carrier.carries(SERVER) else None

    def round(self, number: int) -> None:
        task = self.task
        asked = task.chances.asked(len(task.partition), task.seed, number)
        able = task.chances.here(asked, task.seed, number)
        here = tuple(n for n in able if n not in self.gone)
        self.steps += self.how.steps
        downs = self._hand_outs(here, number)
        works, ups, came = self.answers(downs, number)
        trips = [Trip(p.source, p.targets, p.message.size_bytes) for p in (*downs, *ups)]
        sound = {p.source: p.message for p in came if p.message.sound and p.message.vectors}
        began = time.thread_time()
        if self.server is not None and sound:
            self.how.close(self.at, self.server, sound, number)
        merge_cpu_s = time.thread_time() - began
        broken = tuple(p.source for p in came if p.source not in sound)
        absent = tuple(n for n in asked if n not in able and n not in self.gone)
        found = Round(number, tuple(works), tuple(trips), absent, broken, merge_cpu_s=merge_cpu_s)
        self.kept(found, len(here))

    def _hand_outs(self, here: Sequence[int], number: int) -> Sequence[Parcel]:
        """On the server's worker, one for each client that takes part."""
        server = self.server
        if server is None:
            return ()
        return [Parcel(SERVER, (n,), self.how.hand_out(self.at, server, n, number)) for n in here]

    def answers(self, downs: Sequence[Parcel], number: int) -> "Answers":
        """Clients that this worker carries take what is handed out, train, and send."""
        works, ups = [], []
        for parcel in self.carrier.send(downs).wait():
            made, work = self._trained(parcel.targets[0], parcel.message, number)
            works.append(work)
            ups.append(Parcel(parcel.targets[0], (SERVER,), made))
        return Answers(works, ups, self.carrier.send(ups).wait())

    def _trained(self, client: int, message: Message, number: int) -> tuple[Message, ClientWork]:
        who = self.mine[client]
        made, work = self.worked(who, lambda: self.how.train(self.at, who, message, number), number)
        assert isinstance(made, Message)
        return made, work

    def model(self, number: int) -> JudgedModel | None:
        return None if self.server is None else self.how.model(self.at, self.server, number)
