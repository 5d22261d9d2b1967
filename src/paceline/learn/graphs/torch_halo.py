"""Halo exchange as a step of a forward pass, whose backward pass brings gradients home.

Forward, each part sends rows of its own nodes to the parts that border on them. Backward, what the
loss of those parts says of these rows comes back and is added up. Both ways rows may be rounded to
few bits, and may be those of the epoch before. What rounding to two means left out of a gradient is
added to the next epoch's, as in "1-Bit Stochastic Gradient Descent". Rows themselves do not
remember, for each epoch uses them anew; nor does rounding at random, whose errors are larger than
what is rounded and would grow.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from paceline.learn.carrier import Carrier, Parcel, Pending, inboxes
from paceline.learn.graphs.network import GraphNetwork
from paceline.learn.graphs.parts import GraphPart
from paceline.learn.graphs.torch_rounding import Dice, Rounding, Table
from paceline.learn.message import Message
from paceline.learn.record import Trip

Inbox = Mapping[int, Mapping[int, Message]]
Key = tuple[int, str]
"""A layer, and whether rows go out or gradients come home."""


class Halos:
    """What this worker's parts exchange. One for a training."""

    def __init__(self, how: GraphNetwork, mine: Sequence[GraphPart], carrier: Carrier) -> None:
        self.mine, self.waits, self.trips = tuple(mine), True, list[Trip]()
        self._rounding, self._carrier = Rounding(how.bits, how.means), carrier
        drawn = {p.number: np.random.default_rng([how.seed, 6, p.number]) for p in mine}
        self._dice = {number: Dice(each) for number, each in drawn.items()}
        self._under_way: dict[Key, Pending] = {}
        self._last: dict[Key, Inbox] = {}
        self._left: dict[tuple[Key, int, int], Table] = {}  # by sending and receiving part

    def once(self, rows: Sequence[Tensor]) -> list[Tensor]:
        """Halos of what never changes, as they are."""
        came = inboxes(self._carrier.send(self._parcels(rows, (0, "out"), Rounding())).wait())
        return [
            self._halo(part, came.get(part.number, {}), own.shape[1], Rounding())
            for part, own in zip(self.mine, rows)
        ]

    def out(self, layer: int, rows: Sequence[Tensor]) -> list[Tensor]:
        """The halo of each part, from rows of all nodes' owners."""
        came = self._exchanged((layer, "out"), rows)
        return [
            self._halo(part, came.get(part.number, {}), own.shape[1], self._rounding)
            for part, own in zip(self.mine, rows)
        ]

    def home(self, layer: int, slopes: Sequence[Tensor], owned: Sequence[int]) -> list[Tensor]:
        """What all others' losses say of each part's own rows."""
        came = self._exchanged((layer, "home"), slopes)
        found = []
        for part, slope, rows in zip(self.mine, slopes, owned):
            total = torch.zeros(rows, slope.shape[1])
            for sender, message in came.get(part.number, {}).items():
                values = torch.from_numpy(self._rounding.restored(message, slope.shape[1]))
                total.index_add_(0, torch.from_numpy(part.sends[sender]), values)
            found.append(total)
        return found

    def _exchanged(self, key: Key, rows: Sequence[Tensor]) -> Inbox:
        """Now, or as it was sent in the epoch before."""
        before = self._under_way.pop(key, None)
        if before is not None:
            self._last[key] = inboxes(before.wait())
        parcels = self._parcels(rows, key, self._rounding)
        pending = self._carrier.send(parcels, alike=f"layer {key[0]} {key[1]}")
        if self.waits or key not in self._last:
            self._last[key] = inboxes(pending.wait())
        else:
            self._under_way[key] = pending
        return self._last[key]

    def finish(self) -> None:
        """Nothing is left on its way."""
        for pending in self._under_way.values():
            pending.wait()
        self._under_way = {}

    def _parcels(self, rows: Sequence[Tensor], key: Key, how: Rounding) -> list[Parcel]:
        found = []
        for part, own in zip(self.mine, rows):
            table: Any = own.detach().numpy()
            for other, places in (part.sends if key[1] == "out" else part.takes).items():
                picked = np.take(table, places, axis=0)
                if key[1] == "home" and how.means:
                    message = self._with_what_was_left(picked, (key, part.number, other), how)
                else:
                    message = how.packed(picked, self._dice[part.number])
                found.append(Parcel(part.number, (other,), message))
        self.trips += [Trip(p.source, p.targets, p.message.size_bytes) for p in found]
        return found

    def _with_what_was_left(
        self, rows: Table, where: tuple[Key, int, int], how: Rounding
    ) -> Message:
        """Adds to `rows`, and keeps what rounding leaves out of them now."""
        if where in self._left:
            rows += self._left[where]
        message = how.packed(rows, self._dice[where[1]])
        self._left[where] = np.subtract(rows, how.restored(message, rows.shape[1]), out=rows)
        return message

    def _halo(
        self, part: GraphPart, inbox: Mapping[int, Message], columns: int, how: Rounding
    ) -> Tensor:
        table = np.zeros((len(part.halo), columns), np.float32)
        for sender, message in inbox.items():
            table[part.takes[sender]] = how.restored(message, columns)
        return torch.from_numpy(table)


class Bordered(torch.autograd.Function):
    """From own rows of this worker's parts to their halos."""

    @staticmethod
    def forward(ctx: Any, halos: Halos, layer: int, *rows: Tensor) -> tuple[Tensor, ...]:
        ctx.halos, ctx.layer, ctx.owned = halos, layer, [len(own) for own in rows]
        return tuple(halos.out(layer, rows))

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Any, ...]:
        return (None, None, *ctx.halos.home(ctx.layer, slopes, ctx.owned))
