"""The largest values by magnitude, and those above a bound.

`Largest` finds exactly as many as are asked for, as `torch.topk` does: a sample gives a bound that
a few more are above, and only those are sorted. On a CPU that takes an eighth of the time, and does
not depend on where in a bucket the large ones lie. Where the sample was wrong all are sorted.

Magnitudes are compared as the integers that their bits are, so NaN is above every bound, and a job
that diverges is seen to.
"""

from math import ceil, sqrt

import torch

_WORD = 8  # answers of one byte
_BLOCK = 2**16  # values whose magnitudes stay in a core's cache until they are compared
_MAGNITUDE = 0x7FFFFFFF  # all bits but the sign
_STRIDE = 61  # of the sample; a prime, for rows of matrices are not
_LEAST = 8  # wanted ones that a sample holds
_MOST = 0.1  # share of all that is wanted; of more, sorting all is no slower
_SIGMAS = 4.0  # by which a sample may be wrong before all are sorted


class Largest:
    """Exactly the largest. Memory of its searches is used again."""

    def __init__(self) -> None:
        self._found = Searches()

    def places(self, values: torch.Tensor, many: int) -> torch.Tensor:
        """Where they lie, in no order."""
        in_sample = many / _STRIDE
        if not _may_search(values) or in_sample < _LEAST or many > _MOST * values.numel():
            return _sorted(values, many)
        sample = values[::_STRIDE].abs()
        rank = ceil(in_sample + _SIGMAS * sqrt(in_sample))
        bound = float(sample.topk(rank, sorted=False).values.min())
        above = self._found.above(values, bound)
        if len(above) < many:
            return _sorted(values, many)
        return above[_sorted(values[above], many)]


def _sorted(values: torch.Tensor, many: int) -> torch.Tensor:
    found: torch.Tensor = values.abs().topk(many, sorted=False).indices
    return found


def _may_search(values: torch.Tensor) -> bool:
    return values.device.type == "cpu" and values.dtype is torch.float32


class Searches:
    """Searches by length, for their memory is used again."""

    def __init__(self) -> None:
        self._by_length: dict[int, Above] = {}

    def above(self, values: torch.Tensor, bound: float) -> torch.Tensor:
        """Where float32 values are as large as the bound, or larger."""
        found = self._by_length.get(values.numel())
        if found is None:
            found = self._by_length[values.numel()] = Above(values)
        return found.places(values, bound)


class Above:
    """Finds the places above a bound. Its memory is used again, for fresh memory takes longer than
    the search; and where few are above, most words of eight answers are passed over as one."""

    def __init__(self, like: torch.Tensor) -> None:
        count = like.numel()
        self._sizes = like.new_empty(min(count, _BLOCK), dtype=torch.int32)
        self._answers = torch.zeros(count + -count % _WORD, dtype=torch.bool, device=like.device)

    def places(self, values: torch.Tensor, bound: float) -> torch.Tensor:
        least = int(torch.tensor(bound, dtype=torch.float32).view(torch.int32))
        answers = self._answers[: values.numel()]
        for block, answer in zip(values.view(torch.int32).split(_BLOCK), answers.split(_BLOCK)):
            sizes = torch.bitwise_and(block, _MAGNITUDE, out=self._sizes[: len(block)])
            torch.ge(sizes, least, out=answer)
        words = self._answers.view(torch.int64).nonzero().flatten()
        rows, columns = self._answers.view(-1, _WORD)[words].nonzero().unbind(1)
        return words[rows] * _WORD + columns
