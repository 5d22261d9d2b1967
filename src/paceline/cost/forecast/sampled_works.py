"""Rows of measured tables as `Work`, by the first part of their key."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from paceline.cost.forecast.fitting import Sample
from paceline.graph.kinds import DType
from paceline.graph.work import (
    Attention,
    Convolution,
    Elements,
    Matrix,
    Rows,
    Work,
    attention,
    convolution,
    copied,
    matrix,
    moved,
    norm,
    pointwise,
    softmax,
)

Dims = Mapping[str, int]


def works_in(key: str, sample: Sample) -> list[Work]:
    """What each row of a sample worked on."""
    make, dims = WORKS[key.split(".")[0]], sample.question.dims
    names = tuple(name for name in dims if name != "library")
    columns = np.stack([dims[name] for name in names], axis=1)
    dtype = sample.question.dtype
    return [make(dict(zip(names, map(int, row))), dtype) for row in columns.tolist()]


def _matrix(dims: Dims, dtype: DType) -> Work:
    return matrix(Matrix(dims["b"], dims["m"], dims["n"], dims["k"]), dtype)


def _attention(dims: Dims, dtype: DType) -> Work:
    s, d = dims["s"], dims["head_dim"]
    return attention(
        Attention(dims["b"], dims["heads"], dims["kv_heads"], s, s, d, d, causal=True), dtype
    )


def _convolution(dims: Dims, dtype: DType) -> Work:
    return convolution(Convolution(
        dims["b"], dims["channels_in"], dims["channels_out"], dims["size_in"], dims["size_out"],
        dims["kernel"], dims["stride"],
    ), dtype)  # fmt: skip


def _pointwise(dims: Dims, dtype: DType) -> Work:
    return pointwise(Elements(dims["count"], dims["inputs"]), dtype)


def _bytes(dims: Dims, dtype: DType) -> Work:
    whole = copied(dims["count"], dtype)
    return moved(whole.read_bytes, whole.written_bytes)


def _relaid(dims: Dims, dtype: DType) -> Work:
    return copied(dims["count"], dtype)


def _rows(make: Callable[[Rows, DType], Work]) -> Callable[[Dims, DType], Work]:
    return lambda dims, dtype: make(Rows(dims["rows"], dims["columns"]), dtype)


WORKS: Final[Mapping[str, Callable[[Dims, DType], Work]]] = {
    "bmm": _matrix,
    "linear": _matrix,
    "convolution": _convolution,
    "attention": _attention,
    "pointwise": _pointwise,
    "copy": _bytes,
    "relaid": _relaid,
    "softmax": _rows(softmax),
    "norm": _rows(norm),
}
