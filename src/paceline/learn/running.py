"""`run`: many clients, carried by few workers, train round after round.

Every worker makes the same calls in the same order; what is random is drawn from the seed, the
client and the round. So the run is the same, client by client, on any number of workers.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paceline.learn.algorithm import (
    Algorithm,
    Meeting,
    Model,
    Outgoing,
    Peers,
    Served,
    Setting,
    mean,
)
from paceline.learn.algorithms import text_of
from paceline.learn.carrier import Alone, Carrier, Parcel, PendingMean, inboxes
from paceline.learn.chances import Chances
from paceline.learn.client import Client
from paceline.learn.errors import LearnError
from paceline.learn.learner import Learner
from paceline.learn.message import SERVER, Message, packed, unpacked
from paceline.learn.partition import Partition
from paceline.learn.record import Judged, LearnRun, Round, Trip, Work, sent_bytes
from paceline.learn.samples import Vector
from paceline.learn.telling import joined, told_of

BROKEN = Message()
"""In place of a message with infinite numbers or none."""


@dataclass(frozen=True, eq=False)
class Task:
    """What is trained, on whose data, how, and for how long."""

    learner: Learner
    partition: Partition
    algorithm: Algorithm
    rounds: int
    seed: int = 1
    chances: Chances = field(default_factory=Chances)
    every: int = 1  # rounds from one judgement to the next; the last round is always judged
    model: str = ""
    test_samples: int = 0
    enough_samples: int = 0  # it ends once every client was trained with so many; 0: never

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.every < 1:
            raise LearnError("a run has 1 round or more, and is judged every 1 or more")
        if isinstance(self.algorithm, Peers) and self.chances.per_round:
            raise LearnError(
                f"in {text_of(self.algorithm)} every client keeps weights of its own and takes "
                "part in every round; leave per_round out"
            )

    @property
    def setting(self) -> Setting:
        return Setting(self.learner, self.partition.sizes, self.rounds, self.seed)


Told = Callable[[Judged], None]


def run(task: Task, carrier: Carrier | None = None, told: Told | None = None) -> LearnRun:
    """The whole record on worker 0; on others what they know of it."""
    carrier = carrier or Alone()
    if carrier.workers > len(task.partition):
        raise LearnError(
            f"{carrier.workers} workers cannot carry {len(task.partition)} clients: each carries "
            "one at least. Start fewer workers."
        )
    ways = _ServedRun if isinstance(task.algorithm, Served) else _PeersRun
    driver = ways(task, carrier)
    for number in range(task.rounds):
        driver.round(number)
        last = number == task.rounds - 1 or driver.has_seen_enough()
        if last or (number + 1) % task.every == 0:
            driver.judge(number, told)
        if last:
            break
    return driver.record()


@dataclass(eq=False)
class _Clock:
    """Time that the rounds took; judging is left out."""

    began: float = field(default_factory=time.perf_counter)
    paused: float = 0.0

    def now(self) -> float:
        return time.perf_counter() - self.began - self.paused


class _Run:
    """What both kinds share."""

    def __init__(self, task: Task, carrier: Carrier) -> None:
        self.task, self.carrier, self.at = task, carrier, task.setting
        rows = enumerate(task.partition.rows)
        self.mine = {n: Client.of(n, r, task.seed) for n, r in rows if carrier.carries(n)}
        self.rounds: list[Round] = []
        self.untold: list[Round] = []
        self.members: dict[int, int] = {}  # by round, who took part
        self.judged: list[Judged] = []
        self.sent = 0
        self.clock = _Clock()

    def round(self, number: int) -> None:
        raise NotImplementedError

    def model(self, number: int) -> Model | None:
        """On worker 0."""
        raise NotImplementedError

    def has_seen_enough(self) -> bool:
        """Clients of methods that steer their steps all take equally many, so workers agree."""
        enough = self.task.enough_samples
        return bool(enough) and all(client.seen >= enough for client in self.mine.values())

    def judge(self, number: int, told: Told | None) -> None:
        began = time.perf_counter()
        self.tell()
        model = self.model(number)
        if model is not None:
            accuracy = self.task.learner.right(model.weights, stage=model.stage)
            self.judged.append(Judged(number, accuracy, self.sent))
            if told is not None:
                told(self.judged[-1])
        self.clock.paused += time.perf_counter() - began

    def record(self) -> LearnRun:
        task, algorithm = self.task, self.task.algorithm
        return LearnRun(
            algorithm=text_of(algorithm),
            partition=str(task.partition.how),
            skew=round(task.partition.skew, 4),
            clients=len(task.partition),
            seed=task.seed,
            meeting=algorithm.meeting,
            lag=algorithm.lag if isinstance(algorithm, Peers) else 0,
            test_samples=task.test_samples,
            workers=self.carrier.workers,
            model=task.model,
            rounds=tuple(self.rounds),
            judged=tuple(self.judged),
        )

    def worked(
        self, client: Client, act: Callable[[], Outgoing], number: int
    ) -> tuple[Outgoing, Work]:
        """What a client makes, and what that took, putting it into bytes and back included: a
        worker alone does that too, so that its time is that of one among others."""
        seen, began = client.seen, time.thread_time()
        made = act()
        if self.carrier.workers == 1:
            made = _as_bytes(made)
        cpu_s, samples = time.thread_time() - began, client.seen - seen
        share = self.task.algorithm.arithmetic(self.at, number)
        return made, Work(client.number, samples, samples * share, cpu_s)

    def kept(self, found: Round, members: int) -> None:
        """This worker's part of a round."""
        self.untold.append(replace(found, ended_s=self.clock.now()))
        self.members[found.number] = members

    def tell(self) -> None:
        """Every worker tells worker 0 of the rounds since the last time."""
        came = self.carrier.send([Parcel(self.carrier.rank, (SERVER,), told_of(self.untold))])
        messages = [parcel.message for parcel in came.wait()]
        if self.carrier.carries(SERVER):
            for whole in joined(self.untold, messages):
                meeting = self.task.algorithm.meeting
                self.sent += sent_bytes(meeting, whole.trips, self.members[whole.number])
                self.rounds.append(whole)
        self.untold = []


class _ServedRun(_Run):
    """Clients meet at the server, on worker 0."""

    def __init__(self, task: Task, carrier: Carrier) -> None:
        super().__init__(task, carrier)
        assert isinstance(task.algorithm, Served)
        self.how = task.algorithm
        self.server = self.how.open(self.at) if carrier.carries(SERVER) else None

    def round(self, number: int) -> None:
        task = self.task
        asked = task.chances.asked(len(task.partition), task.seed, number)
        here = task.chances.here(asked, task.seed, number)
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
        absent = tuple(n for n in asked if n not in here)
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


class _PeersRun(_Run):
    """Every client keeps weights; messages may travel behind later rounds."""

    def __init__(self, task: Task, carrier: Carrier) -> None:
        super().__init__(task, carrier)
        assert isinstance(task.algorithm, Peers)
        self.how = task.algorithm
        for client in self.mine.values():
            self.how.begin(self.at, client)
        self.under_way: deque[Any] = deque()
        self.lost: set[int] = set()
        self.merge_cpu_s = 0.0  # of this round

    def round(self, number: int) -> None:
        everyone = tuple(range(len(self.task.partition)))
        here = set(self.task.chances.here(everyone, self.task.seed, number)) - self.lost
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
        self.how.after(self.at, self.mine, number, lambda sent: self._talk(sent, afterwards))
        broken = tuple(p.source for p in out if p.message is BROKEN)
        absent = tuple(n for n in everyone if n not in here and n not in self.lost)
        all_trips = (*trips, *afterwards)
        found = Round(number, tuple(works), all_trips, absent, broken, merge_cpu_s=self.merge_cpu_s)
        self.kept(found, max(1, len(here)))

    def _trained(
        self, client: Client, everyone: Sequence[int], number: int
    ) -> tuple[Work, list[Parcel]]:
        made, work = self.worked(client, lambda: self.how.train(self.at, client, number), number)
        if isinstance(made, Message):
            return work, [Parcel(client.number, tuple(everyone), made if made.sound else BROKEN)]
        sound = all(message.sound for message in made.values())
        return work, [
            Parcel(client.number, (peer,), message if sound else BROKEN)
            for peer, message in made.items()
        ]

    def _summed(self, out: Sequence[Parcel]) -> PendingMean:
        self.lost |= {p.source for p in out if p.message is BROKEN}
        sound = [p.message.vectors["mean"] for p in out if p.message is not BROKEN]
        return self.carrier.summed(sound, self.at.learner.size)

    def _take_mean(self, merged: Vector, number: int) -> None:
        for client in self.mine.values():
            if client.number not in self.lost:
                self.how.take(self.at, client, merged, number)

    def _take(self, came: Sequence[Parcel], number: int) -> None:
        """A client that sent infinite numbers or none is left out from then on."""
        self.lost |= {p.source for p in came if not p.message.vectors}
        found = inboxes([p for p in came if p.message.vectors])
        if not any(found.values()):
            return
        merged: dict[tuple[int, ...], object] = {}
        for client in self.mine.values():
            inbox = found.get(client.number, {})
            key = tuple(map(id, inbox.values()))
            if inbox and client.number not in self.lost:
                if key not in merged:
                    merged[key] = self.how.merged(self.at, inbox)
                self.how.take(self.at, client, merged[key], number)

    def _talk(
        self, sent: Mapping[int, Mapping[int, Message]], trips: list[Trip]
    ) -> Mapping[int, Mapping[int, Message]]:
        parcels = [
            Parcel(source, (target,), message)
            for source, each in sent.items()
            for target, message in each.items()
        ]
        trips += [Trip(p.source, p.targets, p.message.size_bytes, True) for p in parcels]
        return inboxes(self.carrier.send(parcels).wait())

    def model(self, number: int) -> Model | None:
        """The mean of all clients' weights."""
        out = [
            Parcel(n, (SERVER,), Message({"weights": client.weights}))
            for n, client in self.mine.items()
            if n not in self.lost
        ]
        came = self.carrier.send(out).wait()
        if not self.carrier.carries(SERVER):
            return None
        if not came:
            raise LearnError("all clients sent infinite numbers or none; give a smaller lr")
        return Model(mean([p.message.vectors["weights"] for p in came]))


def _as_bytes(made: Outgoing) -> Outgoing:
    if isinstance(made, Message):
        return unpacked(packed(made))
    once = {id(message): unpacked(packed(message)) for message in made.values()}
    return {peer: once[id(message)] for peer, message in made.items()}
