"""Parameter servers on the workers' own hosts: each rank serves one share of every bucket.

Workers push their share of a bucket to each server, which adds up what it receives, and pull the
sums. Messages go directly from rank to rank, all of a push at once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from paceline.cost.collectives.volume import sent_share
from paceline.graph import Collective
from paceline.runtime.codecs.torch_communicate import Under
from paceline.runtime.torch_groups import new_groups
from paceline.runtime.torch_turns import in_turn


@contextmanager
def served(parent: Any) -> Iterator[Any]:
    """A function that starts the exchange of one payload, over a group of its own."""
    ranks = tuple(dist.get_process_group_ranks(parent))
    with new_groups([ranks]) as made, in_turn() as submit:
        servers = Servers(made[ranks])

        def start(payload: torch.Tensor) -> Under:
            size = payload.numel() * payload.element_size()
            ways = (Collective.PUSH, Collective.PULL)
            wire = sum(round(size * sent_share(way, len(ranks))) for way in ways)
            future = submit(lambda: servers.exchange(payload))
            return Under(future, (payload,), 2 * size, wire, 2)

        yield start


class Servers:
    """One rank among those that serve each other."""

    def __init__(self, group: Any) -> None:
        self._group, self._ranks = group, dist.get_process_group_ranks(group)
        self._me = self._ranks.index(dist.get_rank())

    def exchange(self, payload: torch.Tensor) -> None:
        """The payload becomes the sum of all ranks' payloads. Gloo's messages are of host memory,
        so that of a device passes through it."""
        if payload.device.type == "cpu":
            return self._sum(payload)
        held = payload.cpu()
        self._sum(held)
        payload.copy_(held)
        return None

    def _sum(self, payload: torch.Tensor) -> None:
        shares = payload.tensor_split(len(self._ranks))
        mine = shares[self._me]
        pushed = {place: torch.empty_like(mine) for place in self._others()}
        self._talk(dict(enumerate(shares)), pushed)
        inputs = [pushed.get(place, mine) for place in range(len(self._ranks))]
        total = inputs[0].clone()
        for other in inputs[1:]:
            total.add_(other)
        mine.copy_(total)
        self._talk(dict.fromkeys(self._others(), mine), dict(enumerate(shares)))

    def _others(self) -> list[int]:
        return [place for place in range(len(self._ranks)) if place != self._me]

    def _talk(self, out: dict[int, torch.Tensor], into: dict[int, torch.Tensor]) -> None:
        """To and from every other rank, at once; nothing is sent of an empty share."""
        under = []
        for place in self._others():
            if into[place].numel():
                under.append(dist.irecv(into[place], self._ranks[place], self._group))
            if out[place].numel():
                under.append(dist.isend(out[place], self._ranks[place], self._group))
        for each in under:
            if each is not None:
                each.wait()
