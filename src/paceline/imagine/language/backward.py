"""The backward pass of each operator: what autograd runs for it, from its work alone."""

from collections.abc import Callable, Mapping
from typing import Final

from paceline.errors import GraphError
from paceline.graph.work import (
    Elements,
    Family,
    Matrix,
    Rows,
    Way,
    Work,
    copied,
    embedding,
    loss,
    matrix,
    norm,
    pointwise,
    reduction,
    softmax,
)


def backward(forward: list[Work]) -> list[Work]:
    """All of them, last operator first."""
    return [one for work in reversed(forward) for one in backward_of(work)]


def backward_of(work: Work) -> list[Work]:
    found = _RULES.get(work.family)
    if found is None:
        raise GraphError(
            f"the backward pass of {work.family.name.lower()} is not described; described are "
            f"{', '.join(family.name.lower() for family in _RULES)}"
        )
    return found(work)


def _matrix(work: Work) -> list[Work]:
    """Both operands' gradients; a layer's weight has a bias, whose gradient is a sum."""
    dims = work.dims
    assert isinstance(dims, Matrix)
    left = matrix(Matrix(dims.b, dims.m, dims.k, dims.n), work.dtype)
    right = matrix(Matrix(dims.b, dims.k, dims.n, dims.m), work.dtype)
    if dims.b > 1:
        return [left, right]
    return [left, right, reduction(Rows(dims.n, dims.m), work.dtype)]


def _rows(make: Callable[..., Work]) -> Callable[[Work], list[Work]]:
    def rule(work: Work) -> list[Work]:
        return [make(work.dims, work.dtype, Way.BACKWARD)]

    return rule


def _pointwise(work: Work) -> list[Work]:
    """One kernel for each tensor that went in; a plain sum passes its gradient on."""
    dims = work.dims
    assert isinstance(dims, Elements)
    return [pointwise(Elements(dims.count, 2), work.dtype)] if dims.inputs == 1 else []


def _copy(work: Work) -> list[Work]:
    assert isinstance(work.dims, Elements)
    return [copied(work.dims.count, work.dtype)]


def _reduction(work: Work) -> list[Work]:
    assert isinstance(work.dims, Rows)
    return [copied(work.dims.rows * work.dims.columns, work.dtype)]


_RULES: Final[Mapping[Family, Callable[[Work], list[Work]]]] = {
    Family.MATRIX: _matrix,
    Family.SOFTMAX: _rows(softmax),
    Family.NORM: _rows(norm),
    Family.LOSS: _rows(loss),
    Family.EMBEDDING: _rows(embedding),
    Family.POINTWISE: _pointwise,
    Family.COPY: _copy,
    Family.REDUCTION: _reduction,
}
