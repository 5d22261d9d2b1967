"""The border between two stages, over which only the largest activations of each sample pass.

Gupta et al., "Training Recommender Systems at Scale" (DCT, 2021), its model parallelism. The stage
before the border keeps of each sample as many activations as the share says, those above a cached
threshold, and sends them with their places. The gradients come back for the same places alone, so
no places travel then: to both stages it is as if the others were zero. Nothing is remembered.

A `packed` border says of each activation by one bit whether it passed, and sends values in 16 bits.
In as many bytes as a quarter of the activations take with their places, it lets nearly all pass.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from paceline.runtime.codecs.codec import kept
from paceline.runtime.stages.errors import PipelineError
from paceline.runtime.stages.torch_header import HEADER, described, header

_HEAD_BYTES = 8 * HEADER
_PLACE_BYTES = 4


@dataclass(frozen=True)
class Border:
    """How much passes, how many messages a threshold serves, and whether in few bits."""

    ratio: float = 0.1
    every: int = 100
    packed: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1 or self.every < 1:
            raise PipelineError(
                f"{self}: give a ratio above 0, to 1, and a refresh every 1 or more messages"
            )


def message_bytes(made: Tensor, ratio: float) -> int:
    """Of a message of activations: its header, places and values."""
    many = kept(made[0].numel(), ratio)
    return _HEAD_BYTES + len(made) * many * (_PLACE_BYTES + int(made.element_size()))


@dataclass
class Open:
    """No border: everything passes, both ways."""

    sent_bytes: int = 0

    def close(self, made: Tensor, microbatch: int) -> Tensor:
        return self._sent(made)

    def gradient_like(self, made: Tensor, microbatch: int) -> Tensor:
        return made

    def gradient(self, came: Tensor, microbatch: int) -> Tensor:
        return came

    def open(self, message: Tensor, microbatch: int) -> Tensor:
        return message

    def masked(self, gradient: Tensor, microbatch: int) -> Tensor:
        return self._sent(gradient)

    def _sent(self, message: Tensor) -> Tensor:
        self.sent_bytes += message.numel() * message.itemsize
        return message


@dataclass(frozen=True)
class Chosen:
    """What passed of a micro-batch: places, a row for each sample, and whether each is used."""

    places: Tensor
    used: Tensor
    shape: torch.Size
    dtype: torch.dtype

    def spread(self, values: Tensor) -> Tensor:
        """Values at their places, zero elsewhere."""
        whole = values.new_zeros(self.shape[0], self.shape[1:].numel())
        return whole.scatter_add_(1, self.places, values * self.used).view(self.shape)

    def mask(self) -> Tensor:
        """For each activation whether it passed."""
        found = torch.zeros(
            self.shape[0], self.shape[1:].numel(), dtype=torch.int64, device=self.used.device
        )
        return found.scatter_add_(1, self.places, self.used.to(torch.int64)) > 0

    def of(self, whole: Tensor) -> Tensor:
        """The values at the places; zero where a place is not used."""
        return whole.reshape(self.shape[0], -1).gather(1, self.places) * self.used


@dataclass
class Before:
    """The side that sends activations and gets gradients."""

    border: Border
    sent_bytes: int = 0
    _turn: int = 0
    _bound: float = 0.0
    _chosen: dict[int, Chosen] = field(default_factory=dict)

    def close(self, made: Tensor, microbatch: int) -> Tensor:
        """What passes of a micro-batch's activations: their header, places and values."""
        chosen = self._chosen[microbatch] = self._choose(made)
        told = torch.tensor(header(made), device=made.device)
        where = bits(chosen.mask()) if self.border.packed else chosen.places.to(torch.int32)
        parts = (told, where, chosen.of(made).to(sent_as(made.dtype, self.border.packed)))
        message = torch.cat([part.contiguous().flatten().view(torch.uint8) for part in parts])
        self.sent_bytes += message.numel()
        return message

    def gradient_like(self, made: Tensor, microbatch: int) -> Tensor:
        """What comes back looks like this."""
        dtype = sent_as(made.dtype, self.border.packed)
        return made.new_empty(self._chosen[microbatch].places.shape, dtype=dtype)

    def gradient(self, came: Tensor, microbatch: int) -> Tensor:
        """Of all activations: zero for those that did not pass."""
        chosen = self._chosen.pop(microbatch)
        return chosen.spread(came.to(chosen.dtype))

    def _choose(self, made: Tensor) -> Chosen:
        """Those above the threshold in each sample, the first where there is no room for more. The
        threshold is that of the mean sample."""
        sizes = made.reshape(made.shape[0], -1).abs()
        many = kept(sizes.shape[1], self.border.ratio)
        if many < sizes.shape[1] and self._turn % self.border.every == 0:
            self._bound = float(sizes.topk(many, 1, sorted=False).values.amin(1).mean())
        self._turn += 1
        above = (sizes >= self._bound) & (sizes > 0)
        order = above.cumsum(1)
        row, column = (above & (order <= many)).nonzero().unbind(1)
        places = torch.zeros(len(sizes), many, dtype=torch.int64, device=made.device)
        used = torch.zeros_like(places, dtype=torch.bool)
        slot = order[row, column] - 1
        places[row, slot], used[row, slot] = column, True
        return Chosen(places, used, made.shape, made.dtype)


@dataclass
class Behind:
    """The side that gets activations and sends gradients. What passed is not zero."""

    border: Border = field(default_factory=Border)
    sent_bytes: int = 0
    _chosen: dict[int, Chosen] = field(default_factory=dict)

    def open(self, message: Tensor, microbatch: int) -> Tensor:
        """The activations: zero where none passed."""
        like = described(message[:_HEAD_BYTES].view(torch.int64))
        read = _few_bits if self.border.packed else _places
        places, values = read(message[_HEAD_BYTES:], like)
        chosen = self._chosen[microbatch] = Chosen(places, values != 0, like.shape, like.dtype)
        return chosen.spread(values)

    def masked(self, gradient: Tensor, microbatch: int) -> Tensor:
        """What goes back: the gradients of what passed."""
        found = self._chosen.pop(microbatch).of(gradient)
        found = found.to(sent_as(gradient.dtype, self.border.packed))
        self.sent_bytes += found.numel() * found.itemsize
        return found


def sent_as(dtype: torch.dtype, packed: bool) -> torch.dtype:
    """Of values that cross: packed ones keep the range of float32 and three of its digits."""
    return torch.bfloat16 if packed else dtype


def bits(mask: Tensor) -> Tensor:
    """Eight of a row-wise mask in a byte; the last byte is filled up with zeros."""
    flat = mask.flatten()
    whole = flat.new_zeros(-(-flat.numel() // 8) * 8)
    whole[: flat.numel()] = flat
    return (whole.view(-1, 8) * _weights(flat)).sum(1).to(torch.uint8)


def _weights(like: Tensor) -> Tensor:
    return 2 ** torch.arange(8, dtype=torch.int64, device=like.device)


def _places(rest: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Places and values, as they were sent."""
    samples = like.shape[0]
    many = rest.numel() // (like.itemsize + _PLACE_BYTES) // samples
    edge = samples * many * _PLACE_BYTES
    places = rest[:edge].view(torch.int32).to(torch.int64).view(samples, many)
    return places, rest[edge:].clone().view(like.dtype).view(samples, many)


def _few_bits(rest: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Places from bits, in the order in which their values were sent."""
    samples, count = like.shape[0], like.numel()
    edge = -(-count // 8)
    unpacked = (rest[:edge, None].to(torch.int64) & _weights(rest)) > 0
    mask = unpacked.flatten()[:count].view(samples, -1)
    values = rest[edge:].clone().view(torch.bfloat16).view(samples, -1).to(like.dtype)
    row, column = mask.nonzero().unbind(1)
    slot = mask.cumsum(1)[row, column] - 1
    places = torch.zeros(values.shape, dtype=torch.int64, device=rest.device)
    places[row, slot] = column
    return places, values
