"""Gradients above a threshold, which is found exactly only every so many steps.

Finding the largest takes most of top-k's time, and their bound changes slowly. Between refreshes as
many are sent as top-k would: where more are above, those from a place on that moves each step;
where fewer are, the rest of the payload repeats a place with the value 0. Where far too many are
above, as in the first steps, in which what waits still grows, the next step refreshes too.
"""

import torch

from paceline.runtime.codecs.codec import Turn
from paceline.runtime.codecs.torch_sparse import Placed, payload_of

_TOO_MANY = 4  # times as many above the bound as are to travel
_WORD = 8  # answers of one byte
_BLOCK = 2**16  # values whose magnitudes stay in a core's cache until they are compared


class Threshold(Placed):
    """Keeps one threshold a bucket, or a parameter."""

    def __init__(self, ratio: float, every: int) -> None:
        super().__init__(ratio)
        self.every = every
        self._bounds: dict[tuple[int, int, int], float] = {}  # by bucket, part and its length
        self._found = Searches()

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        many, key = self.many(values.numel(), turn), (turn.bucket, turn.part, values.numel())
        if turn.step % self.every == 0 or key not in self._bounds:
            largest, places = values.abs().topk(many, sorted=False)
            self._bounds[key] = float(largest.min())
            return payload_of(values, places, many)
        places = self._found.above(values, self._bounds[key])
        if len(places) > _TOO_MANY * many:
            del self._bounds[key]
        if len(places) >= many:
            places = places.roll(-turn.step * many)[:many]
        return payload_of(values, places, many)


class Searches:
    """Searches by length, for their memory is used again."""

    def __init__(self) -> None:
        self._by_length: dict[int, Above] = {}

    def above(self, values: torch.Tensor, bound: float) -> torch.Tensor:
        found = self._by_length.get(values.numel())
        if found is None:
            found = self._by_length[values.numel()] = Above(values)
        return found.places(values, bound)


class Above:
    """Finds the places above a bound. Its memory is used again, for fresh memory takes longer than
    the search; and where few are above, most words of eight answers are passed over as one."""

    def __init__(self, like: torch.Tensor) -> None:
        count = like.numel()
        self._sizes = like.new_empty(min(count, _BLOCK))
        self._answers = torch.zeros(count + -count % _WORD, dtype=torch.bool, device=like.device)

    def places(self, values: torch.Tensor, bound: float) -> torch.Tensor:
        answers = self._answers[: values.numel()]
        for block, answer in zip(values.split(_BLOCK), answers.split(_BLOCK)):
            sizes = self._sizes[: len(block)]
            torch.ge(torch.abs(block, out=sizes), bound, out=answer)
        words = self._answers.view(torch.int64).nonzero().flatten()
        rows, columns = self._answers.view(-1, _WORD)[words].nonzero().unbind(1)
        return words[rows] * _WORD + columns
