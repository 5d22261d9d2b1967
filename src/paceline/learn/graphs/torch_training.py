"""`train`: a graph network on a graph in parts, carried by as many workers as there are.

Every part has a replica of the weights; gradients are added up in the order of the parts, so that
replicas stay alike to the last bit, which is checked in every epoch. Features of the first layer
never change: their halos travel once. Where a layer narrows, rows are projected before they go.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from paceline.learn.algorithm import Meeting
from paceline.learn.carrier import Alone, Carrier, Parcel, inboxes
from paceline.learn.errors import LearnError
from paceline.learn.graphs.network import GraphNetwork
from paceline.learn.graphs.parts import Parts
from paceline.learn.graphs.torch_halo import Bordered, Halos
from paceline.learn.graphs.torch_replica import (
    Mixed,
    Replica,
    fill,
    mixing,
    node_data,
    slopes_of,
)
from paceline.learn.message import SERVER, Message
from paceline.learn.record import ClientWork, Judged, LearnRun, Round, Trip, sent_bytes
from paceline.learn.samples import Vector
from paceline.learn.telling import joined, told_of

Told = Callable[[Judged], None]


@dataclass(frozen=True, eq=False)
class GraphTask:
    """What is trained, and for how long."""

    parts: Parts
    network: GraphNetwork
    epochs: int
    every: int = 10  # epochs from one judgement to the next

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.every < 1:
            raise LearnError("a training has 1 epoch or more, and is judged every 1 or more")


def train(task: GraphTask, carrier: Carrier | None = None, told: Told | None = None) -> LearnRun:
    """The whole record on worker 0."""
    carrier = carrier or Alone()
    if carrier.workers > len(task.parts.each):
        raise LearnError(
            f"{carrier.workers} workers cannot carry {len(task.parts.each)} parts: each carries "
            "one at least. Start fewer workers, or ask for more parts"
        )
    driver = _Training(task, carrier)
    for epoch in range(task.epochs):
        right = driver.epoch(epoch)
        last = epoch == task.epochs - 1
        if last or (epoch + 1) % task.every == 0:
            driver.judge(epoch, right, told)
    return driver.record()


class _Training:
    """One worker's parts."""

    def __init__(self, task: GraphTask, carrier: Carrier) -> None:
        graph, how = task.parts.graph, task.network
        self.task, self.carrier = task, carrier
        self.mine = [part for part in task.parts.each if carrier.carries(part.number)]
        self.halos = Halos(how, self.mine, carrier)
        self.nets = [Replica(how, graph.features.shape[1], int(graph.labels.max()) + 1)
                     for _ in self.mine]  # fmt: skip
        self.size = sum(p.numel() for p in self.nets[0].parameters())
        self.steps = [torch.optim.Adam(net.parameters(), lr=how.lr) for net in self.nets]
        self.tables = [mixing(task.parts, part, how.layer) for part in self.mine]
        self.data = [node_data(task.parts, part) for part in self.mine]
        own = [data.features for data in self.data]
        self.first = list(zip(own, self.halos.once(own)))
        self.mixed_features: list[Tensor] | None = None
        self.untold: list[Round] = []
        self.rounds: list[Round] = []
        self.judged: list[Judged] = []
        self.sent, self.paused, self.began = 0, 0.0, time.perf_counter()

    def epoch(self, number: int) -> tuple[int, int]:
        """One step; how many test nodes of this worker were right before it, and how many are."""
        began = time.thread_time()
        self.halos.waits = self.task.network.waits(number)
        outputs = self._outputs()
        wanted = len(self.task.parts.graph.train)
        losses = [
            nn.functional.cross_entropy(out[d.train], d.labels[d.train], reduction="sum") / wanted
            for out, d in zip(outputs, self.data)
            if len(d.train)
        ]
        for step in self.steps:
            step.zero_grad()
        sum([*losses, *(0.0 * out.sum() for out in outputs)]).backward()
        found = self._summed()
        trips = [*self.halos.trips, *found]
        self.halos.trips = []
        works = self._works(time.thread_time() - began)
        lasted = time.perf_counter() - self.began - self.paused
        self.untold.append(Round(number, works, tuple(trips), ended_s=lasted))
        right = [
            int((o[d.test].argmax(1) == d.labels[d.test]).sum()) for o, d in zip(outputs, self.data)
        ]
        return sum(right), sum(len(data.test) for data in self.data)

    def _outputs(self) -> list[Tensor]:
        """Layer by layer on all parts of this worker."""
        own = [data.features for data in self.data]
        for number in range(self.task.network.layers):
            narrows = self.nets[0].narrows(number)
            seen = self._seen(number, own, narrows)
            mixed = self._mixed(number, seen)
            own = [
                net.layer(number, row, mix, narrows) for net, row, mix in zip(self.nets, own, mixed)
            ]
        return own

    def _seen(self, number: int, own: list[Tensor], narrows: bool) -> list[tuple[Tensor, Tensor]]:
        """Of each part own rows and its halo's, projected where the layer narrows."""
        if narrows and not number:
            both = zip(self.nets, self.first)
            return [(n.projected(0, own), n.projected(0, halo)) for n, (own, halo) in both]
        if not number:
            return self.first
        if narrows:
            own = [net.projected(number, row) for net, row in zip(self.nets, own)]
        return list(zip(own, Bordered.apply(self.halos, number, *own)))

    def _mixed(self, number: int, seen: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """Of features, which never change, once for the whole training."""
        constant = number == 0 and not seen[0][0].requires_grad
        if constant and self.mixed_features is not None:
            return self.mixed_features
        found = [Mixed.apply(table, *rows) for table, rows in zip(self.tables, seen)]
        if constant:
            self.mixed_features = found
        return found

    def _summed(self) -> list[Trip]:
        """Every replica takes the same step; returns what travelled for that."""
        everyone = tuple(part.number for part in self.task.parts.each)
        slopes = [slopes_of(net) for net in self.nets]
        if self.carrier.sums:
            mean = self.carrier.summed(slopes, self.size).mean()
            assert mean is not None, "every part has slopes"
            total = len(everyone) * mean
            self._stepped([total] * len(self.nets))
            return [Trip(p.number, everyone, total.nbytes, True, True) for p in self.mine]
        out = [
            Parcel(part.number, everyone, Message({"slope": slope}))
            for part, slope in zip(self.mine, slopes)
        ]
        came = inboxes(self.carrier.send(out).wait())
        totals = [np.zeros(self.size, np.float32) for _ in self.mine]
        for part, total in zip(self.mine, totals):
            for message in came[part.number].values():
                total += message.vectors["slope"]
        self._stepped(totals)
        return [Trip(p.source, p.targets, p.message.size_bytes, True, True) for p in out]

    def _stepped(self, totals: Sequence[Vector]) -> None:
        for net, step, total in zip(self.nets, self.steps, totals):
            fill(net, torch.from_numpy(total))
            step.step()

    def _works(self, cpu_s: float) -> tuple[ClientWork, ...]:
        """A worker's time, by the nodes of its parts."""
        nodes = sum(len(part.nodes) for part in self.mine)
        return tuple(
            ClientWork(p.number, len(p.nodes), len(p.nodes), cpu_s * len(p.nodes) / nodes)
            for p in self.mine
        )

    def judge(self, epoch: int, right: tuple[int, int], told: Told | None) -> None:
        began = time.perf_counter()
        sums = [float(abs(p.detach()).double().sum()) for n in self.nets for p in n.parameters()]
        checks = {"right": right[0], "of": right[1]}
        message = Message({"sums": np.array(sums)}, checks)
        own = [Parcel(self.carrier.rank, (SERVER,), told_of(self.untold)),
               Parcel(self.carrier.rank, (SERVER,), message)]  # fmt: skip
        came = self.carrier.send(own).wait()
        if self.carrier.carries(SERVER):
            self._taken([parcel.message for parcel in came], epoch)
            if told is not None:
                told(self.judged[-1])
        self.untold = []
        self.paused += time.perf_counter() - began

    def _taken(self, messages: Sequence[Message], epoch: int) -> None:
        """On worker 0: the rounds that were told, accuracy, and whether replicas are alike."""
        checks = [m for m in messages if "sums" in m.vectors]
        _require_alike([m.vectors["sums"] for m in checks], len(list(self.nets[0].parameters())))
        for each in joined(self.untold, [m for m in messages if "sums" not in m.vectors]):
            self.rounds.append(each)
            self.sent += sent_bytes(Meeting.LINKS, each.trips, len(self.task.parts.each))
        right, of = (sum(m.numbers[name] for m in checks) for name in ("right", "of"))
        self.judged.append(Judged(epoch, right / max(1.0, of), self.sent))

    def record(self) -> LearnRun:
        how = self.task.network
        self.halos.finish()
        return LearnRun(
            algorithm=(
                f"{how.layer.value}(lr={how.lr:g}, bits={how.bits}, means={how.means}, "
                f"stale={how.stale})"
            ),
            partition=f"{len(self.task.parts.each)} parts",
            skew=0.0,
            clients=len(self.task.parts.each),
            seed=how.seed,
            meeting=Meeting.LINKS,
            lag=1 if how.stale else 0,
            test_samples=len(self.task.parts.graph.test),
            workers=self.carrier.workers,
            model=f"{how.layer.value}, {how.layers} layers of {how.hidden}",
            rounds=tuple(self.rounds),
            judged=tuple(self.judged),
            notes=self.task.parts.notes,
            samples=len(self.task.parts.graph.train),
        )


def _require_alike(sums: Sequence[np.ndarray], tensors: int) -> None:
    """Each worker tells the sums of its replicas, tensor by tensor."""
    replicas = np.concatenate([each.reshape(-1, tensors) for each in sums])
    apart = np.flatnonzero((replicas != replicas[0]).any(axis=1))
    if len(apart):
        raise LearnError(
            f"the weights of part {int(apart[0])} are no longer those of part 0: workers do not "
            "run the same kernels; start all of them with one thread, on like processors"
        )
