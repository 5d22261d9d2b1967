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
        with own_type(inputs):
            made: Tensor = _Product.apply(inputs.to(self.vectors.dtype), self.vectors)
        return made

    def dense(self) -> Tensor:
        return dense_of(self.vectors)


def own_type(inputs: Tensor) -> torch.autocast:
    """Autocast is off: no transform is there in 16 bits."""
    return torch.autocast(inputs.device.type, enabled=False)


def dense_of(vectors: Tensor) -> Tensor:
    """The weight whose blocks' vectors these are."""
    down, across, k = vectors.shape
    turned = vectors[:, :, _differences(k, vectors.device)]  # down x across x k x k
    return turned.transpose(1, 2).reshape(down * k, across * k)


def nearest_circulant(weight: Tensor, k: int) -> Circulant:
    """The nearest to a dense weight: each wrapped diagonal's mean."""
    rows, columns = weight.shape
    blocks = weight.reshape(rows // k, k, columns // k, k).transpose(1, 2)
    row = torch.arange(k, device=weight.device)[:, None]
    column = _differences(k, weight.device)  # of diagonal d in each row
    return Circulant(blocks[:, :, row, column].mean(2).contiguous())


def _differences(k: int, device: torch.device) -> Tensor:
    a = torch.arange(k, device=device)
    return (a[:, None] - a[None, :]) % k


class _Product(torch.autograd.Function):  # type: ignore[misc]
    """Rows of inputs times the transposed weight."""

    @staticmethod
    def forward(context: Any, inputs: Tensor, vectors: Tensor) -> Tensor:
        k = vectors.shape[-1]
        given, weight = _planes(_blocks(inputs, k)), _planes(vectors)
        context.save_for_backward(given, weight)
        context.k = k
        return _numbers(_times(given, weight.mT), k).flatten(1)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        given, weight = context.saved_tensors
        k, inputs, vectors = context.k, None, None
        back = _planes(_blocks(gradient, k))
        if context.needs_input_grad[0]:
            inputs = _numbers(_times(back, weight, conjugate=True), k).flatten(1)
        if context.needs_input_grad[1]:
            vectors = _numbers(_times(back.mT, given, conjugate=True), k)
        return inputs, vectors


def _blocks(rows: Tensor, k: int) -> Tensor:
    return rows.reshape(rows.shape[0], -1, k)


def _times(one: Tensor, other: Tensor, *, conjugate: bool = False) -> Tensor:
    """Matrices of complex numbers, a product for each frequency; `other` conjugated if asked."""
    sign = -1 if conjugate else 1
    (a, b), (c, d) = one, other
    made = one.new_empty(2, *a.shape[:2], c.shape[2])
    torch.bmm(a, c, out=made[0]).baddbmm_(b, d, alpha=-sign)
    torch.bmm(b, c, out=made[1]).baddbmm_(a, d, alpha=sign)
    return made


def _planes(blocks: Tensor) -> Tensor:
    """By frequency: 2 (real and imaginary parts) x frequencies x blocks. So each frequency is one
    product of matrices, and nothing has to be moved for it."""
    k = blocks.shape[-1]
    if k > SHORT:
        found = torch.fft.rfft(blocks).permute(2, 0, 1)
        return torch.stack([found.real, found.imag])
    made = forward_matrix(k, blocks.dtype, blocks.device) @ blocks.reshape(-1, k).T
    return made.reshape(2, k // 2 + 1, *blocks.shape[:-1])


def _numbers(planes: Tensor, k: int) -> Tensor:
    """Blocks again."""
    shape = (*planes.shape[2:], k)
    if k > SHORT:
        last = torch.complex(planes[0], planes[1]).permute(1, 2, 0).contiguous()
        return torch.fft.irfft(last, n=k)
    made: Tensor = planes.flatten(0, 1).flatten(1).T @ inverse_matrix(
        k, planes.dtype, planes.device
    )
    return made.reshape(shape)


@cache
def forward_matrix(k: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The transform as a matrix: all real parts, then all imaginary ones."""
    each = torch.fft.rfft(torch.eye(k, dtype=dtype, device=device))
    return torch.cat([each.real, each.imag], 1).T.contiguous()


@cache
def inverse_matrix(k: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """From those parts back, from the right."""
    parts = torch.eye(2 * (k // 2 + 1), dtype=dtype, device=device).chunk(2, 1)
    return torch.fft.irfft(torch.complex(*(part.contiguous() for part in parts)), n=k)
