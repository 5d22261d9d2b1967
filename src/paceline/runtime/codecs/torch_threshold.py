"""Gradients above a threshold, which is found exactly only every so many steps.

Finding the largest takes most of top-k's time, and their bound changes slowly. Between refreshes as
many are sent as top-k would: where more are above, those from a place on that moves each step;
where fewer are, the rest of the payload repeats a place with the value 0.
"""

import torch

from paceline.runtime.codecs.codec import Codec, Sharing, Turn, kept
from paceline.runtime.codecs.torch_topk import Sparse, payload_of

_WORD = 8  # answers of one byte


class Threshold(Sparse):
    """Keeps one threshold a bucket."""

    def __init__(self, ratio: float, every: int) -> None:
        self.ratio, self.every = ratio, every
        self._bounds: dict[tuple[int, int], float] = {}  # by bucket and its length
        self._found: dict[int, Above] = {}  # by length

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        many, key = kept(values.numel(), self.ratio), (turn.bucket, values.numel())
        if turn.step % self.every == 0 or key not in self._bounds:
            largest, places = values.abs().topk(many, sorted=False)
            self._bounds[key] = float(largest.min())
            return payload_of(values, places)
        places = self._above(values).places(values, self._bounds[key])
        if len(places) >= many:
            return payload_of(values, places.roll(-turn.step * many)[:many])
        payload = payload_of(values, torch.nn.functional.pad(places, (0, many - len(places))))
        payload[many + len(places) :] = 0
        return payload

    def _above(self, values: torch.Tensor) -> "Above":
        found = self._found.get(values.numel())
        if found is None:
            found = self._found[values.numel()] = Above(values)
        return found


class Above:
    """Finds the places above a bound. Its memory is used again, for fresh memory takes longer than
    the search; and where few are above, most words of eight answers are passed over as one."""

    def __init__(self, like: torch.Tensor) -> None:
        count = like.numel()
        self._sizes = torch.empty_like(like)
        self._answers = torch.zeros(count + -count % _WORD, dtype=torch.bool, device=like.device)

    def places(self, values: torch.Tensor, bound: float) -> torch.Tensor:
        torch.abs(values, out=self._sizes)
        torch.ge(self._sizes, bound, out=self._answers[: values.numel()])
        words = self._answers.view(torch.int64).nonzero().flatten()
        rows, columns = self._answers.view(-1, _WORD)[words].nonzero().unbind(1)
        return words[rows] * _WORD + columns


def threshold(ratio: float, every: int) -> Codec:
    return Codec(Threshold(ratio, every), Sharing.GATHER, feedback=True)
