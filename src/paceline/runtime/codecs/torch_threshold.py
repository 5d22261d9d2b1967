"""Gradients above a threshold, which is found exactly only every so many steps.

Finding the largest takes most of top-k's time, and their bound changes slowly. Between refreshes as
many are sent as top-k would: where more are above, those from a place on that moves each step;
where fewer are, the rest of the payload repeats a place with the value 0. Where far too many are
above, as in the first steps, in which what waits still grows, the bound is found anew among those
alone: the largest of all are among them.
"""

import torch

from paceline.runtime.codecs.codec import Turn
from paceline.runtime.codecs.torch_largest import Largest, Searches
from paceline.runtime.codecs.torch_sparse import Placed, payload_of

_TOO_MANY = 4  # times as many above the bound as are to travel


class Threshold(Placed):
    """Keeps one threshold a bucket, or a parameter."""

    def __init__(self, ratio: float, every: int) -> None:
        super().__init__(ratio)
        self.every = every
        self._bounds: dict[tuple[int, int, int], float] = {}  # by bucket, part and its length
        self._largest, self._found = Largest(), Searches()

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        many, key = self.many(values.numel(), turn), (turn.bucket, turn.part, values.numel())
        if turn.step % self.every == 0 or key not in self._bounds:
            places = self._largest.places(values, many)
            self._bounds[key] = float(values[places].abs_().min())
            return payload_of(values, places, many)
        places = self._found.above(values, self._bounds[key])
        if len(places) > _TOO_MANY * many:
            largest, chosen = values[places].abs_().topk(many, sorted=False)
            self._bounds[key], places = float(largest.min()), places[chosen]
        if len(places) > many:
            places = places.roll(-turn.step * many)[:many]
        return payload_of(values, places, many)
