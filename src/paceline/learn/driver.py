"""`Driver`: one worker's part of a run."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from paceline.learn.algorithm import JudgedModel, Memory, Outgoing, Peers
from paceline.learn.algorithms import text_of
from paceline.learn.carrier import Carrier, Parcel, Reformed
from paceline.learn.client import Client
from paceline.learn.message import SERVER, Message, packed, unpacked
from paceline.learn.record import ClientWork, Judged, LearnRun, Lost, Round, sent_bytes
from paceline.learn.snapshots import Snapshots
from paceline.learn.task import Task
from paceline.learn.telling import joined, told_of

Told = Callable[[Judged], None]


@dataclass(eq=False)
class _Clock:
    """Time that the rounds took; judging is left out."""

    began: float = field(default_factory=time.perf_counter)
    paused: float = 0.0

    def now(self) -> float:
        return time.perf_counter() - self.began - self.paused


class Driver(ABC):
    """What both kinds of algorithms share: clients, clock, judging, the record."""

    def __init__(self, task: Task, carrier: Carrier) -> None:
        self.task, self.carrier, self.at = task, carrier, task.setting
        rows = enumerate(task.partition.rows)
        self.mine = {n: Client.of(n, r, task.seed) for n, r in rows if carrier.carries(n)}
        self.rounds: list[Round] = []
        self.untold: list[Round] = []
        self.members: dict[int, int] = {}  # by round, who took part
        self.judged: list[Judged] = []
        self.sent = 0
        self.steps = 0  # of a client that took part in every round
        self.clock = _Clock()
        self.server: Memory | None = None  # on worker 0, where there is one
        self.left_out: set[int] = set()  # clients that sent infinite numbers or none, for good
        self.gone: set[int] = set()  # clients of workers that died
        self.lost: tuple[Lost, ...] = ()
        self._leave_out(carrier.gone, 0)
        self.snapshots = Snapshots(self.lag + 2)

    @property
    def lag(self) -> int:
        algorithm = self.task.algorithm
        return algorithm.lag if isinstance(algorithm, Peers) else 0

    def begin(self, number: int) -> None:
        """Before a round: where workers may be lost, its state is kept."""
        if self.carrier.may_lose:
            self.snapshots.keep(number, self)

    def go_on(self, found: Reformed) -> int:
        """Without the clients of workers that are gone; the round from which."""
        self.snapshots.restore(found.round, self)
        self._leave_out(found.gone, found.round)
        return found.round

    def _leave_out(self, workers: Mapping[int, str], round_: int) -> None:
        for worker, cause in sorted(workers.items()):
            everyone = range(len(self.task.partition))
            clients = tuple(n for n in everyone if self.carrier.of(n) == worker)
            self.lost = (*self.lost, Lost(worker, round_, cause, clients))
            self.gone |= set(clients)

    @abstractmethod
    def round(self, number: int) -> None:
        """Clients train, send and merge."""

    @abstractmethod
    def model(self, number: int) -> JudgedModel | None:
        """What is judged, on worker 0."""

    def has_seen_enough(self) -> bool:
        """Told by steps, of which all workers know, whoever was left out of which."""
        enough = self.task.enough_samples
        return bool(enough) and self.steps * self.task.algorithm.batch >= enough

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
            lag=self.lag,
            test_samples=task.test_samples,
            workers=self.carrier.workers,
            model=task.model,
            rounds=tuple(self.rounds),
            judged=tuple(self.judged),
            notes=algorithm.notes(self.at),
            lost=self.lost,
            samples=sum(task.partition.sizes),
            per_round=task.chances.per_round,
            drops=task.chances.drops,
        )

    def worked(
        self, client: Client, act: Callable[[], Outgoing], number: int
    ) -> tuple[Outgoing, ClientWork]:
        """What a client makes, and what that took, putting it into bytes and back included: a
        worker alone does that too, so that its time is that of one among others."""
        seen, began = client.seen, time.thread_time()
        made = act()
        if self.carrier.workers == 1:
            made = _as_bytes(made, client.number)
        cpu_s, samples = time.thread_time() - began, client.seen - seen
        share = self.task.algorithm.arithmetic(self.at, number)
        return made, ClientWork(client.number, samples, samples * share, cpu_s)

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


def _as_bytes(made: Outgoing, own: int) -> Outgoing:
    """But for what a client tells itself alone."""
    if isinstance(made, Message):
        return unpacked(packed(made))
    once = {id(made[peer]): unpacked(packed(made[peer])) for peer in made if peer != own}
    return {peer: once.get(id(message), message) for peer, message in made.items()}
