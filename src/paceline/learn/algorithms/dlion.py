"""Batches by each client's speed, messages by each link's rate, and now and then the best weights.

Hong and Chandra, "DLion: Decentralized Distributed Deep Learning in Micro-Clouds" (2021).
1. A client's batch is its share of the speed: `batch` times all clients is dealt out by `speeds`,
   which `measures` has measured before training. Gradients count by their batch, so that the step
   is that of the whole batch.
2. Max-N for each link: of a tensor travel the gradients of (100 - N) % of its largest and above,
   with the N that the link carries in `send_ms`. What a link leaves out waits for it.
3. Every `merge_every` rounds clients go the `merge` share of the way to the weights of the client
   whose recent loss is lowest.

Settings without a speed or a rate for each client mean that all are alike. No code of the authors
was at hand: what waits for a link (2) is this implementation's choice, without it what a slow link
leaves out would be lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from paceline.learn.algorithm import Meeting, Outgoing, Peers, Setting, Talk
from paceline.learn.carrier import Carrier
from paceline.learn.client import Client
from paceline.learn.errors import LearnError
from paceline.learn.message import Message
from paceline.learn.samples import Vector
from paceline.learn.speeds import measured_speeds

_ENTRY_BYTES = 8  # a place and a value
_BYTES_PER_MS_OF_MBIT = 125
_RECENT = np.float32(0.9)  # what the earlier loss counts beside a new one's tenth


@dataclass(frozen=True)
class DLion(Peers):
    steps: int = 1
    speeds: tuple[float, ...] = ()  # of each client, against one another
    measures: bool = False  # speeds; they then stand among the run's settings
    links_mbit: tuple[float, ...] = ()  # of each client; empty: all gradients travel
    send_ms: float = 20.0  # that a step's messages may take on a link
    merge_every: int = 100  # rounds; 0: never
    merge: float = 0.75

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.steps == 1, "a round is one step")
        self.require(all(s > 0 for s in (*self.speeds, *self.links_mbit)), "rates are above 0")
        self.require(not (self.measures and self.speeds), "speeds are given or measured")
        self.require(0 < self.merge <= 1 and self.merge_every >= 0, "merge is above 0, up to 1")

    @property
    def meeting(self) -> Meeting:
        return Meeting.LINKS

    def prepared(self, at: Setting, carrier: Carrier) -> "DLion":
        if not self.measures:
            return self
        return replace(self, measures=False, speeds=measured_speeds(at, self.batch, carrier))

    def batch_of(self, client: int) -> int:
        if not self.speeds:
            return self.batch
        share = self.speeds[client] / sum(self.speeds)
        return max(1, round(self.batch * len(self.speeds) * share))

    def begin(self, at: Setting, client: Client) -> None:
        for name in ("speeds", "links_mbit"):
            given = len(getattr(self, name))
            self.require(given in (0, at.clients), f"{given} {name} for {at.clients} clients")
        super().begin(at, client)
        client.keeps["velocity"] = np.zeros(at.learner.trained, np.float32)

    def train(self, at: Setting, client: Client, round_: int) -> Outgoing:
        found = at.learner.gradient(client.weights, client.batch(self.batch_of(client.number)))
        loss = client.keeps.setdefault("loss", np.array([found.loss], np.float32))
        loss[0] = _RECENT * loss[0] + (1 - _RECENT) * np.float32(found.loss)
        told = {"loss": float(loss[0])}
        whole = Message({"values": found.values}, told)
        return {peer: self._for_link(at, client, peer, whole) for peer in range(at.clients)}

    def _for_link(self, at: Setting, client: Client, peer: int, whole: Message) -> Message:
        """What a client tells itself has no link to cross."""
        if not self.links_mbit or peer == client.number:
            return whole
        waiting = client.keeps.setdefault(f"for {peer}", np.zeros(at.learner.trained, np.float32))
        waiting += whole.vectors["values"]
        places = largest(at, waiting, self._room(at, client.number, peer))
        values = waiting[places]
        waiting[places] = 0
        return Message({"places": places.astype(np.int32), "values": values}, whole.numbers)

    def _room(self, at: Setting, sender: int, peer: int) -> int:
        """How many gradients fit: a link carries messages to and from all peers at once."""
        mbit = min(self.links_mbit[sender], self.links_mbit[peer]) / max(1, at.clients - 1)
        room = int(mbit * self.send_ms * _BYTES_PER_MS_OF_MBIT - _ENTRY_BYTES) // _ENTRY_BYTES
        if room < 1:
            raise LearnError(
                f"the link between clients {sender} and {peer} carries "
                f"{mbit * self.send_ms * _BYTES_PER_MS_OF_MBIT:.0f} bytes in {self.send_ms:g} ms, "
                f"less than one message of {2 * _ENTRY_BYTES}; give a longer send_ms"
            )
        return min(room, at.learner.trained)

    def take(self, at: Setting, client: Client, merged: Mapping[int, Message], round_: int) -> None:
        """Also what it told itself; a client that dropped out has nothing of its own to add."""
        batches = {n: self.batch_of(n) for n in merged}
        whole = sum(batches.values())
        total = np.zeros(at.learner.trained, np.float32)
        for sender, message in merged.items():
            share, places = np.float32(batches[sender] / whole), message.vectors.get("places")
            total[slice(None) if places is None else places] += share * message.vectors["values"]
        velocity = client.keeps["velocity"]
        velocity *= np.float32(self.momentum)
        velocity += total
        client.weights[: at.learner.trained] -= np.float32(self.rate(at, round_)) * velocity
        losses = {n: message.numbers["loss"] for n, message in merged.items()}
        best = min(sorted(losses), key=losses.__getitem__)
        client.keeps["best"] = np.array([best], np.float32)

    def after(self, at: Setting, mine: Mapping[int, Client], round_: int, talk: Talk) -> None:
        if not self.merge_every or (round_ + 1) % self.merge_every:
            return
        sent: dict[int, Mapping[int, Message]] = {}
        for number, client in mine.items():
            if "best" in client.keeps and int(client.keeps["best"][0]) == number:
                whole = Message({"weights": client.weights.copy()})
                sent[number] = {peer: whole for peer in range(at.clients) if peer != number}
        for number, came in talk(sent).items():
            for message in came.values():
                weights = mine[number].weights
                weights += np.float32(self.merge) * (message.vectors["weights"] - weights)


def largest(at: Setting, values: Vector, room: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Places of at most so many values, those that are largest against their tensor's largest."""
    against = np.nan_to_num(np.abs(values), nan=np.inf)  # what is no number travels, and is seen
    for layer in at.learner.layers:
        part = against[layer.place]
        if len(part) and 0 < (top := part.max()) < np.inf:
            part /= top
    if room < len(values):
        cut = np.partition(against, len(values) - room)[len(values) - room]
        found = np.flatnonzero((against >= cut) & (values != 0))
        return found[:room]
    return np.flatnonzero(values)
