"""Rounds of clients that meet at a server, which worker 0 carries."""

import time
from collections.abc import Sequence

from paceline.learn.algorithm import Model, Served
from paceline.learn.carrier import Carrier, Parcel
from paceline.learn.driver import Driver
from paceline.learn.message import SERVER, Message
from paceline.learn.record import Round, Trip, Work
from paceline.learn.task import Task


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
        told = self._handed_out(here, number)
        works, out = [], []
        for client, message in told.items():
            made, work = self._trained(client, message, number)
            works.append(work)
            out.append(Parcel(client, (SERVER,), made))
        came = self.carrier.send(out).wait()
        trips = [Trip(p.source, p.targets, p.message.size_bytes) for p in (*self._downs, *out)]
        sound = {p.source: p.message for p in came if p.message.sound and p.message.vectors}
        began = time.thread_time()
        if self.server is not None and sound:
            self.how.close(self.at, self.server, sound, number)
        merge_cpu_s = time.thread_time() - began
        broken = tuple(p.source for p in came if p.source not in sound)
        absent = tuple(n for n in asked if n not in able and n not in self.gone)
        found = Round(number, tuple(works), tuple(trips), absent, broken, merge_cpu_s=merge_cpu_s)
        self.kept(found, len(here))

    def _handed_out(self, here: Sequence[int], number: int) -> dict[int, Message]:
        """By client that this worker carries."""
        server, out = self.server, []
        if server is not None:
            out = [
                Parcel(SERVER, (n,), self.how.hand_out(self.at, server, n, number)) for n in here
            ]
        self._downs = tuple(out)
        came = self.carrier.send(out).wait()
        return {p.targets[0]: p.message for p in came}

    def _trained(self, client: int, message: Message, number: int) -> tuple[Message, Work]:
        who = self.mine[client]
        made, work = self.worked(who, lambda: self.how.train(self.at, who, message, number), number)
        assert isinstance(made, Message)
        return made, work

    def model(self, number: int) -> Model | None:
        return None if self.server is None else self.how.model(self.at, self.server, number)
