"""Models travel to foreign data, and what they lose there says how much to communicate.

Hsieh et al., "The Non-IID Data Quagmire of Decentralized Machine Learning" (2020). Every `travel`
steps each client's model, with all that it learned by itself, is judged on samples of its own and
of the next client; what it loses abroad is the accuracy loss. A tuner climbs a ladder of settings
of the method behind it, from much communication to little, by

    weight_loss max(0, loss - allowed) + weight_bytes (bytes a step, over those of all weights)

`judge` says which loss counts. "home" is the paper's. With classes apart it stays near 1 however
often clients meet, for each model knows its own classes: it then drives the ladder to its first
rung. "met" sets the averaged model beside it: the loss abroad counts only where the averaged model
has stopped to gain since the last travel, else what the averaged model lost since then does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.learn.algorithm import Meeting, Outgoing, Peers, Setting, Talk
from paceline.learn.algorithms.dgc import Dgc
from paceline.learn.algorithms.gaia import Gaia
from paceline.learn.algorithms.local_sgd import LocalSgd
from paceline.learn.client import Client
from paceline.learn.message import Message
from paceline.learn.samples import Vector

LADDERS: Mapping[str, tuple[Peers, ...]] = {
    "local_sgd": tuple(LocalSgd(steps=n) for n in (1, 2, 5, 10, 20, 50, 100)),
    "dgc": tuple(Dgc(ratio=r, warmup=0, tight=True) for r in (0.1, 0.05, 0.025, 0.0125)),
    "gaia": tuple(Gaia(threshold=t) for t in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)),
}
"""From much communication to little."""

FORGETS = 4  # travels after which what a rung cost is asked anew


@dataclass
class Tuner:
    """Which rung, and what was found on each; alike at every client."""

    rungs: int
    rung: int
    steps: int = 0  # since the last travel
    sent_bytes: float = 0.0  # by a client, since then
    travels: int = 0
    met: float = 0.0  # accuracy of the averaged model at the last travel
    costs: dict[int, tuple[int, float]] = field(default_factory=dict)  # by rung: when, and what

    def climb(self, loss: float, cost: float, allowed: float) -> None:
        """Towards more communication where too much is lost; else towards less, unless that was
        found to cost more not long ago."""
        self.travels += 1
        self.costs[self.rung] = (self.travels, cost)
        if loss > allowed:
            self.rung = max(0, self.rung - 1)
            return
        when, there = self.costs.get(self.rung + 1, (-FORGETS, 0.0))
        if self.travels - when >= FORGETS or there < cost:
            self.rung = min(self.rungs - 1, self.rung + 1)


@dataclass(frozen=True)
class SkewScout(Peers):
    behind: str = "local_sgd"
    first: int = 1  # the rung to begin with
    travel: int = 100  # steps
    samples: int = 200  # that a model is judged on
    allowed: float = 0.05
    weight_loss: float = 50.0
    weight_bytes: float = 1.0
    judge: str = "met"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.behind in LADDERS, f"behind is one of {', '.join(LADDERS)}")
        self.require(self.judge in ("met", "home"), "judge is 'met' or 'home'")
        self.require(0 <= self.first < len(LADDERS[self.behind]), "no such rung")
        self.require(min(self.travel, self.samples) >= 1, "travel and samples are 1 or more")

    @property
    def meeting(self) -> Meeting:
        return self.ladder[0].meeting

    @cached_property
    def ladder(self) -> tuple[Peers, ...]:
        return tuple(self._rung(each) for each in LADDERS[self.behind])

    def _rung(self, each: Peers) -> Peers:
        return replace(
            each, lr=self.lr, momentum=self.momentum, batch=self.batch, last_lr=self.last_lr
        )

    def begin(self, at: Setting, client: Client) -> None:
        self.ladder[0].begin(at, client)
        client.tools["tuner"] = Tuner(len(self.ladder), self.first)

    def now(self, client: Client) -> Peers:
        """The method on the rung that the tuner stands on."""
        tuner: Tuner = client.tools["tuner"]
        return self.ladder[tuner.rung]

    def steps_of(self, client: Client) -> int:
        return self.now(client).steps

    def train(self, at: Setting, client: Client, round_: int) -> Outgoing:
        tuner, now = client.tools["tuner"], self.now(client)
        sent = now.train(at, client, round_)
        assert isinstance(sent, Message), "methods on ladders send the same to all"
        tuner.sent_bytes += sent.size_bytes
        client.keeps["before"] = now.apart(at, client, round_).copy()
        return sent

    def merged(self, at: Setting, inbox: Mapping[int, Message]) -> Any:
        return self.ladder[0].merged(at, inbox)

    def take(self, at: Setting, client: Client, merged: Any, round_: int) -> None:
        self.now(client).take(at, client, merged, round_)

    def after(self, at: Setting, mine: Mapping[int, Client], round_: int, talk: Talk) -> None:
        travels = False
        for client in mine.values():
            tuner = client.tools["tuner"]
            tuner.steps += self.steps_of(client)  # also of clients that dropped out of the round
            travels = tuner.steps >= self.travel
        if not travels:
            return
        everyone = range(at.clients)
        models = talk(
            {n: {(n + 1) % at.clients: Message({"w": _half(c)})} for n, c in mine.items()}
        )
        found = {
            number: self._judged(at, client, next(iter(models[number].values())).vectors["w"])
            for number, client in mine.items()
            if number in models  # else the one before has died
        }
        heard = talk({n: dict.fromkeys(everyone, told) for n, told in found.items()})
        for number, client in mine.items():
            told = [message.numbers for message in heard.get(number, {}).values()]
            if told:
                self._decide(at, client.tools["tuner"], told)

    def _judged(self, at: Setting, client: Client, visitor: Vector) -> Message:
        """How the client's own model, a visitor's and the met one do on the client's samples."""
        rows = client.drawn.permutation(client.rows)[: self.samples]
        right = at.learner.right
        return Message(
            numbers={
                "home": right(_before(client), rows),
                "visitor": right(visitor.astype(np.float32), rows),
                "met": right(client.weights, rows),
                "sent": client.tools["tuner"].sent_bytes / client.tools["tuner"].steps,
            }
        )

    def _decide(self, at: Setting, tuner: Tuner, told: list[Mapping[str, float]]) -> None:
        home, visitor, met, sent = (
            float(np.mean([each[name] for each in told]))
            for name in ("home", "visitor", "met", "sent")
        )
        abroad = home - visitor
        gained = met - tuner.met
        loss = abroad if self.judge == "home" or 0 <= gained < self.allowed / 5 else -gained
        share = sent / (4 * at.learner.size)
        cost = self.weight_loss * max(0.0, loss - self.allowed) + self.weight_bytes * share
        tuner.climb(loss, cost, self.allowed)
        tuner.met, tuner.steps, tuner.sent_bytes = met, 0, 0.0


def _half(client: Client) -> NDArray[np.float16]:
    """To be judged abroad, half the precision will do."""
    return _before(client).astype(np.float16)


def _before(client: Client) -> Vector:
    """Its model before the clients met last; as it began, where it never trained."""
    return client.keeps.get("before", client.weights)
