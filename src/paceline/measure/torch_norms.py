"""Batch norms of a recorded job together with their ReLUs, by the native core, beside torch's batch
norm alone."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from paceline.engine import native
from paceline.measure.pairs import Work
from paceline.measure.recorded_calls import OperatorCall, RecordedCalls
from paceline.measure.torch_calls import Runnable, runnable

_FORWARD, _BACKWARD = "aten::native_batch_norm", "aten::native_batch_norm_backward"


def restructured(recorded: RecordedCalls) -> Iterator[tuple[OperatorCall, int, Work, Work]]:
    """A call, how often a step makes it, and both ways of making it; none without the core."""
    if native() is None:
        return
    for call, count in recorded.counted().items():
        plain = runnable(call) if call.operator in (_FORWARD, _BACKWARD) else None
        image = next(iter(_images(plain)), None)
        if plain is not None and image is not None:
            way = Forward(image) if call.operator == _FORWARD else Backward(image)
            yield call, count, plain, way


def _images(plain: Runnable | None) -> list[torch.Tensor]:
    given = plain.arguments if plain is not None else ()
    found = [value for value in given if isinstance(value, torch.Tensor) and value.dim() > 2]
    return [image for image in found if image.is_contiguous() and image.dtype is torch.float32]


@dataclass(frozen=True)
class _Way:
    """The core's calls on an image like the recorded one."""

    image: torch.Tensor
    row: torch.Tensor = field(init=False)  # a number for each channel

    def __post_init__(self) -> None:
        object.__setattr__(self, "row", self.image.new_ones(self.image.shape[1]))

    def flat(self, tensor: torch.Tensor) -> Any:
        return tensor.view(-1).numpy()

    @property
    def images(self) -> Any:
        samples, channels = self.image.shape[:2]
        values = self.image.numel() // (samples * channels)
        return native().Images(samples, channels, values, torch.get_num_threads())  # type: ignore[union-attr]


class Forward(_Way):
    """Moments, then the result behind the ReLU."""

    def __call__(self) -> Any:
        core: Any = native()
        x, one, other = self.flat(self.image), torch.empty_like(self.row), self.flat(self.row)
        core.channel_moments(self.images, x, self.flat(one), self.flat(torch.empty_like(one)))
        made = torch.empty_like(self.image)
        core.norm_relu(self.images, x, other, other, self.flat(made))
        return made


class Backward(_Way):
    """Sums of what passes the ReLU, then the input's gradient."""

    def __call__(self) -> Any:
        core: Any = native()
        x, row = self.flat(self.image), self.flat(self.row)
        sums = (self.flat(torch.empty_like(self.row)), self.flat(torch.empty_like(self.row)))
        core.passing_sums(self.images, x, x, row, row, row, *sums)
        made = torch.empty_like(self.image)
        core.norm_relu_back(self.images, x, x, row, row, row, row, row, self.flat(made))
        return made
