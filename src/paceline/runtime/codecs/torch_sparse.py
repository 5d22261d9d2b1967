"""What codecs share that send some values with their places.

The payload is as many places as values, both as 32 bits: first the places, then the values. Where
there are fewer values than there is room, a place is repeated with the value 0.
"""

from dataclasses import replace

import torch

from paceline.runtime.codecs.codec import Sparse, Turn, kept


class Placed(Sparse):
    """Places and values; which ones, the codecs built on it say."""

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio

    def ratio_at(self, turn: Turn) -> float:
        """The share that travels in this turn."""
        return self.ratio

    def many(self, count: int, turn: Turn) -> int:
        return kept(count, self.ratio_at(turn))

    def numbers(self, count: int, turn: Turn) -> int:
        return 2 * self.many(count, turn)

    def add(
        self, total: torch.Tensor, payload: torch.Tensor, turn: Turn, times: float = 1.0
    ) -> None:
        places, values = payload.chunk(2)
        total.index_add_(0, places, values.view(torch.float32), alpha=times)

    def clear(self, values: torch.Tensor, payload: torch.Tensor, turn: Turn) -> None:
        places, sent = payload.chunk(2)
        values.index_fill_(0, places[sent != 0].to(torch.int64), 0.0)


class Layerwise(Sparse):
    """Each parameter of a bucket by itself, so that each sends its share."""

    def __init__(self, each: Sparse) -> None:
        self.each = each

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        parts = values.split(_counts(turn))
        return torch.cat(
            [self.each.compress(p, replace(turn, part=i)) for i, p in enumerate(parts)]
        )

    def numbers(self, count: int, turn: Turn) -> int:
        return sum(self._lengths(turn))

    def add(
        self, total: torch.Tensor, payload: torch.Tensor, turn: Turn, times: float = 1.0
    ) -> None:
        for part, (values, sent) in enumerate(self._parts(total, payload, turn)):
            self.each.add(values, sent, replace(turn, part=part), times)

    def clear(self, values: torch.Tensor, payload: torch.Tensor, turn: Turn) -> None:
        for part, (mine, sent) in enumerate(self._parts(values, payload, turn)):
            self.each.clear(mine, sent, replace(turn, part=part))

    def _parts(
        self, values: torch.Tensor, payload: torch.Tensor, turn: Turn
    ) -> "zip[tuple[torch.Tensor, torch.Tensor]]":
        return zip(values.split(_counts(turn)), payload.split(self._lengths(turn)))

    def _lengths(self, turn: Turn) -> list[int]:
        parts = enumerate(_counts(turn))
        return [self.each.numbers(count, replace(turn, part=part)) for part, count in parts]


def payload_of(values: torch.Tensor, places: torch.Tensor, room: int) -> torch.Tensor:
    """These places and their values, at most `room` of them."""
    missing = room - len(places)
    if missing <= 0:
        return torch.cat([places.to(torch.int32), values[places].view(torch.int32)])
    padded = torch.nn.functional.pad(places, (0, missing))
    payload = torch.cat([padded.to(torch.int32), values[padded].view(torch.int32)])
    payload[2 * room - missing :] = 0
    return payload


def _counts(turn: Turn) -> list[int]:
    return [torch.Size(shape).numel() for shape in turn.shapes]
