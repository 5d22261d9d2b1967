"""How a message between stages announces itself: dtype, number of dimensions, sizes."""

import torch
from torch import Tensor

from paceline.runtime.stages.errors import PipelineError

HEADER = 8
"""int64 numbers that announce a message: dtype, dimensions, sizes of at most six dimensions."""

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8)


def header(message: Tensor) -> list[int]:
    if message.dtype not in DTYPES or message.dim() > HEADER - 2:
        raise PipelineError(
            f"a stage passes on {message.dtype} of {message.dim()} dimensions; allowed are "
            f"{', '.join(map(str, DTYPES))} of at most {HEADER - 2} dimensions"
        )
    sizes = list(message.shape)
    return [DTYPES.index(message.dtype), len(sizes), *sizes, *[0] * (HEADER - 2 - len(sizes))]


def described(told: Tensor) -> Tensor:
    """An empty message as a header tells it, on the header's device."""
    dtype, dimensions, *sizes = told.tolist()
    return torch.empty(sizes[:dimensions], dtype=DTYPES[dtype], device=told.device)
