"""Matrices as products of two thin ones, found by one step of power iteration (PowerSGD).

Both factors are kept transposed, so that each of their columns lies in one piece.
"""

from typing import NamedTuple

import torch

from paceline.runtime.codecs.codec import Iterative, Turn
from paceline.runtime.codecs.low_rank import Layout, Matrix

_LOST = 1e-5  # of a vector's length: less of it left of the others is rounding


class Factors(NamedTuple):
    """Of one bucket, each a payload; Q is where the next step begins (warm start)."""

    layout: Layout
    p: torch.Tensor
    q: torch.Tensor


class LowRank(Iterative):
    """P = M Q is summed and orthogonalised; Q = M' P is summed; M is then P Q'."""

    def __init__(self, rank: int, seed: int) -> None:
        self.rank, self.seed = rank, seed
        self._factors: dict[tuple[int, tuple[tuple[int, ...], ...]], Factors] = {}

    def first(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        mine = self._of(values, turn)
        for matrix in mine.layout.matrices:
            q = _q(mine, matrix)
            _orthonormal(q)
            self._revive(q, turn)
            torch.mm(q, _view(values, matrix).t(), out=_p(mine, matrix))
        for whole in mine.layout.wholes:
            mine.p[whole.p : whole.p + whole.count] = values[
                whole.first : whole.first + whole.count
            ]
        return mine.p

    def next(self, values: torch.Tensor, turn: Turn, round_: int) -> torch.Tensor | None:
        mine = self._of(values, turn)
        if round_ >= len(mine.layout.rounds):
            return None
        for matrix in mine.layout.matrices:
            p = _p(mine, matrix)
            _orthonormal(p)
            torch.mm(p, _view(values, matrix), out=_q(mine, matrix))
        return mine.q

    def restore(self, total: torch.Tensor, turn: Turn) -> None:
        mine = self._of(total, turn)
        for matrix in mine.layout.matrices:
            torch.mm(_p(mine, matrix).t(), _q(mine, matrix), out=_view(total, matrix))
        for whole in mine.layout.wholes:
            total[whole.first : whole.first + whole.count] = mine.p[whole.p : whole.p + whole.count]

    def _revive(self, q: torch.Tensor, turn: Turn) -> None:
        """A direction that a matrix of lower rank left empty is drawn anew, alike on all ranks."""
        lost = q[:, 0].eq(0) & q.count_nonzero(1).eq(0)
        if lost.any():
            drawn = torch.Generator().manual_seed(self.seed + turn.bucket + turn.step)
            fresh = torch.randn(q.shape, generator=drawn).to(q)
            q[lost] = fresh[lost]
            _orthonormal(q)

    def _of(self, values: torch.Tensor, turn: Turn) -> Factors:
        key = (turn.bucket, turn.shapes)
        found = self._factors.get(key)
        if found is None:
            layout = Layout.of(turn.shapes, self.rank)
            drawn = torch.Generator().manual_seed(self.seed + turn.bucket)
            q = torch.randn(sum(layout.rounds[1:]), generator=drawn).to(values)
            found = Factors(layout, values.new_empty(layout.rounds[0]), q)
            self._factors[key] = found
        return found


def _p(mine: Factors, matrix: Matrix) -> torch.Tensor:
    return _factor(mine.p, matrix.p, matrix, matrix.rows)


def _q(mine: Factors, matrix: Matrix) -> torch.Tensor:
    return _factor(mine.q, matrix.q, matrix, matrix.columns)


def _factor(payload: torch.Tensor, first: int, matrix: Matrix, length: int) -> torch.Tensor:
    return payload[first : first + matrix.rank * length].view(matrix.rank, length)


def _view(values: torch.Tensor, matrix: Matrix) -> torch.Tensor:
    count = matrix.rows * matrix.columns
    return values[matrix.first : matrix.first + count].view(matrix.rows, matrix.columns)


def _orthonormal(rows: torch.Tensor) -> None:
    """Gram and Schmidt, row after row, in place. What depends on the rows before becomes zero."""
    lengths = torch.linalg.vector_norm(rows, dim=1).mul_(_LOST).tolist()
    for row, vector in enumerate(rows):
        length = float(torch.linalg.vector_norm(vector))
        if length <= lengths[row]:
            vector.zero_()
            continue
        vector.div_(length)
        if row + 1 < len(rows):
            rest = rows[row + 1 :]
            rest.addr_(rest.mv(vector), vector, alpha=-1)
