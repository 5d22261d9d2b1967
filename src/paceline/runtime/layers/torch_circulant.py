"""A weight of circulant blocks, multiplied by fast Fourier transforms (Ding et al., CirCNN, 2017).

Block (i, j) of size k has one vector w: its entry (a, b) is w[(a - b) mod k]. With F for the real
transform, y_i = F^-1(sum_j F(w_ij) F(x_j)): sums are made in frequencies, one inverse transform a
block of outputs. The backward pass multiplies by the conjugates.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from paceline.runtime.layers.circulant import SHORT
from paceline.runtime.layers.torch_structured import Structure


class Circulant(Structure):
    """`vectors` are blocks of rows x blocks of columns x k."""

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.vectors = nn.Parameter(vectors)

    def forward(self, inputs: Tensor) -> Tensor:
        made: Tensor = _Product.apply(inputs, self.vectors)
        return made

    def dense(self) -> Tensor:
        down, across, k = self.vectors.shape
        turned = self.vectors[:, :, _differences(k)]  # down x across x k x k
        return turned.transpose(1, 2).reshape(down * k, across * k)


def nearest_circulant(weight: Tensor, k: int) -> Circulant:
    """The nearest to a dense weight: each wrapped diagonal's mean."""
    rows, columns = weight.shape
    blocks = weight.reshape(rows // k, k, columns // k, k).transpose(1, 2)
    a = torch.arange(k, device=weight.device)
    b = (a[:, None] - a[None, :]) % k  # column of diagonal d in row a
    return Circulant(blocks[:, :, a[:, None], b].mean(2).contiguous())


def _differences(k: int) -> Tensor:
    a = torch.arange(k)
    return (a[:, None] - a[None, :]) % k


class _Product(torch.autograd.Function):  # type: ignore[misc]
    """Rows of inputs times the transposed weight."""

    @staticmethod
    def forward(context: Any, inputs: Tensor, vectors: Tensor) -> Tensor:
        k = vectors.shape[-1]
        given, weight = _by_frequency(_blocks(inputs, k)), _by_frequency(vectors)
        context.save_for_backward(given, weight)
        context.k = k
        return _joined(torch.bmm(given, weight.transpose(1, 2)), k)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        given, weight = context.saved_tensors
        k, inputs, vectors = context.k, None, None
        back = _by_frequency(_blocks(gradient, k))
        if context.needs_input_grad[0]:
            inputs = _joined(torch.bmm(back, weight.conj()), k)
        if context.needs_input_grad[1]:
            vectors = _from_frequency(torch.bmm(back.transpose(1, 2), given.conj()), k)
        return inputs, vectors


def _blocks(rows: Tensor, k: int) -> Tensor:
    return rows.reshape(rows.shape[0], -1, k)


def _by_frequency(blocks: Tensor) -> Tensor:
    """Frequencies first, so that each is one product of matrices."""
    k = blocks.shape[-1]
    if k > SHORT:
        return torch.fft.rfft(blocks).permute(2, 0, 1).contiguous()
    made = (blocks.reshape(-1, k) @ _forward(k, blocks.dtype, blocks.device)).reshape(
        *blocks.shape[:-1], -1, 2
    )
    return torch.view_as_complex(made).permute(2, 0, 1).contiguous()


def _from_frequency(found: Tensor, k: int) -> Tensor:
    """In one piece first: transforms of scattered numbers take three times as long."""
    last = found.permute(1, 2, 0).contiguous()
    if k > SHORT:
        return torch.fft.irfft(last, n=k)
    inverse = _inverse(k, torch.view_as_real(last).dtype, last.device)
    made: Tensor = torch.view_as_real(last).reshape(-1, len(inverse)) @ inverse
    return made.reshape(*last.shape[:-1], k)


@cache
def _forward(k: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The transform as a matrix: real and imaginary parts of each frequency in turn."""
    each = torch.fft.rfft(torch.eye(k, dtype=dtype, device=device))
    return torch.view_as_real(each).reshape(k, -1)


@cache
def _inverse(k: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    count = k // 2 + 1
    each = torch.eye(2 * count, dtype=dtype, device=device).reshape(2 * count, count, 2)
    return torch.fft.irfft(torch.view_as_complex(each), n=k)


def _joined(found: Tensor, k: int) -> Tensor:
    made = _from_frequency(found, k)
    return made.reshape(made.shape[0], -1)
