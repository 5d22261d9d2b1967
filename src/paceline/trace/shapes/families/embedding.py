"""Rows picked by indices, and gradients added to the rows that were picked."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Final

from paceline.graph.work import Rows, Way, Work, embedding
from paceline.trace.shapes.inputs import Inputs, Tensor


def _picked(table: Tensor, rows: int, way: Way = Way.FORWARD) -> Work:
    return embedding(Rows(rows, prod(table.shape[1:])), table.dtype, way)


def _embedding(inputs: Inputs) -> Work:
    return _picked(inputs.tensor(0), inputs.tensor(1).count)


def _dense_backward(inputs: Inputs) -> Work:
    gradient, indices = inputs.tensor(0), inputs.tensor(1)
    columns = gradient.count // max(indices.count, 1)
    return embedding(Rows(indices.count, columns), gradient.dtype, Way.BACKWARD)


def _index_select(inputs: Inputs) -> Work:
    table, indices = inputs.tensor(0), inputs.tensor(2)
    told = inputs.value(1)
    dim = int(told) if told.lstrip("-").isdigit() else 0
    size = table.shape[dim] if -len(table.shape) <= dim < len(table.shape) else 1
    return embedding(Rows(indices.count, table.count // max(size, 1)), table.dtype)


def _index(inputs: Inputs) -> Work:
    """Indices for the first dimensions; what is behind them comes whole."""
    table = inputs.tensor(0)
    indices = [tensor for group in inputs.lists() for tensor in group]
    rows = max((tensor.count for tensor in indices), default=1)
    return embedding(Rows(rows, prod(table.shape[len(indices) :])), table.dtype)


def _index_put(inputs: Inputs) -> Work:
    values = inputs.tensor(2)
    return embedding(Rows(values.count, 1), values.dtype, Way.BACKWARD)


def _gather(inputs: Inputs) -> Work:
    table, indices = inputs.tensor(0), inputs.tensor(2)
    return embedding(Rows(indices.count, 1), table.dtype)


def _scatter(inputs: Inputs) -> Work:
    table, indices = inputs.tensor(0), inputs.tensor(2)
    return embedding(Rows(indices.count, 1), table.dtype, Way.BACKWARD)


def _index_add(inputs: Inputs) -> Work:
    source = inputs.tensor(3)
    return embedding(Rows(source.count, 1), source.dtype, Way.BACKWARD)


RULES: Final[Mapping[str, Callable[[Inputs], Work]]] = {
    "aten::embedding": _embedding,
    "aten::_embedding_bag": _embedding,
    "aten::_embedding_bag_forward_only": _embedding,
    "aten::embedding_dense_backward": _dense_backward,
    "aten::index_select": _index_select,
    "aten::index": _index,
    "aten::index_put_": _index_put,
    "aten::_index_put_impl_": _index_put,
    "aten::index_add_": _index_add,
    "aten::index_copy_": _index_add,
    "aten::gather": _gather,
    "aten::take": _gather,
    "aten::scatter": _scatter,
    "aten::scatter_": _scatter,
    "aten::scatter_add": _scatter,
    "aten::scatter_add_": _scatter,
    "aten::scatter_reduce_": _scatter,
}
