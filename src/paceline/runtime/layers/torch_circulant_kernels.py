"""A convolution whose kernel is of circulant blocks of channels (Ding et al., CirCNN, 2017).

At each place of the window the matrix of output by input channels is of circulant blocks of size k.
Channels are transformed in groups of k; for each frequency there is then a convolution of complex
numbers with a k-th of the channels, and all frequencies are one convolution in groups.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.runtime.layers.torch_circulant import (
    dense_of,
    forward_matrix,
    inverse_matrix,
    nearest_circulant,
    own_type,
)
from paceline.runtime.layers.torch_structured import Structure


class CirculantKernel(Structure):
    """`vectors` are blocks of outputs x blocks of inputs x k x the window."""

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.vectors = nn.Parameter(vectors)

    def forward(self, images: Tensor, stride: Any, padding: Any, dilation: Any) -> Tensor:
        k, how = self.vectors.shape[2], (stride, padding, dilation)
        with own_type(images):
            given = _transformed(images.to(self.vectors.dtype), k)
            made = functional.conv2d(given, _grouped(self.vectors), None, *how, groups=k // 2 + 1)
            return _restored(made, k)

    def dense(self) -> Tensor:
        window = self.vectors.shape[3:]
        places = self.vectors.flatten(3).unbind(3)
        made = torch.stack([dense_of(place) for place in places], -1)
        return made.view(*made.shape[:2], *window)


def nearest(weight: Tensor, k: int) -> Structure:
    """The nearest of circulant blocks to the weight of a linear layer or a convolution."""
    if weight.dim() == 2:
        return nearest_circulant(weight, k)
    places = weight.flatten(2).unbind(2)
    vectors = torch.stack([nearest_circulant(place, k).vectors.detach() for place in places], -1)
    return CirculantKernel(vectors.view(*vectors.shape[:3], *weight.shape[2:]))


def _transformed(images: Tensor, k: int) -> Tensor:
    """By frequency, then real and imaginary parts, then blocks of channels."""
    samples, channels, height, width = images.shape
    blocks = images.reshape(samples, channels // k, k, height * width)
    made = forward_matrix(k, images.dtype, images.device) @ blocks
    parts = made.view(samples, channels // k, 2, k // 2 + 1, height, width)
    return parts.permute(0, 3, 2, 1, 4, 5).reshape(samples, -1, height, width)


def _restored(planes: Tensor, k: int) -> Tensor:
    """Channels again."""
    samples, count, height, width = planes.shape
    blocks = count // (2 * (k // 2 + 1))
    parts = planes.view(samples, k // 2 + 1, 2, blocks, height * width).permute(0, 3, 2, 1, 4)
    made = inverse_matrix(k, planes.dtype, planes.device).T @ parts.flatten(2, 3)
    return made.view(samples, blocks * k, height, width)


def _grouped(vectors: Tensor) -> Tensor:
    """Of each frequency the complex product as one of real and imaginary parts."""
    down, across, k, *window = vectors.shape
    matrix = forward_matrix(k, vectors.dtype, vectors.device)
    real, imaginary = torch.einsum("fk,oikp->foip", matrix, vectors.flatten(3)).chunk(2)
    rows = (torch.cat([real, -imaginary], 2), torch.cat([imaginary, real], 2))
    return torch.cat(rows, 1).reshape((k // 2 + 1) * 2 * down, 2 * across, *window)
