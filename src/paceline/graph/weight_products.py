"""`weight_gradients`: which ops of a backward pass make the gradients of linear layers' weights.

A layer's backward pass has two products, of which one makes the weight's gradient: the one whose
result has the weight's shape, and where both have it the second, as in torch's `addmm`. With it go
the ops from behind both products up to the one that readies the gradient: the bias's sum, what adds
to the gradients that are there, and the copy into a bucket.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from paceline.graph.copying import ragged
from paceline.graph.facts import Parameter
from paceline.graph.gradients import Gradients, gradients_of
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, Phase
from paceline.graph.rank_steps import RankSteps
from paceline.graph.work import Matrix

Stretch = tuple[int, int]
"""First and last op, on one lane."""
_Made = tuple[int, int, int]
"""Where the layer's products begin, and a stretch."""


@dataclass(frozen=True, eq=False)
class WeightGradients:
    """Where gradients of some weights are made, one row a stretch: its parameter, the op with which
    the layer's backward products begin, the stretch's first and its last op. Each rank's step has
    one or two of a weight, of which the first begins with the product."""

    parameter: Int64
    begins: Int64
    first: Int64
    last: Int64

    @property
    def parameters(self) -> tuple[int, ...]:
        """Of which weights, as the model defines them."""
        return tuple(np.unique(self.parameter).tolist())

    def of(self, parameters: Sequence[int]) -> "WeightGradients":
        """Those of some of the weights."""
        return self.where(np.isin(self.parameter, parameters))

    def where(self, chosen: Bool) -> "WeightGradients":
        return WeightGradients(*(column[chosen] for column in vars(self).values()))


def weight_gradients(graph: Graph, weights: Sequence[int], products: Bool) -> WeightGradients:
    """Of those of the job's parameters whose layers run once in every step. `products` are ops
    that multiply matrices."""
    backward = _Backward(graph, gradients_of(graph), RankSteps.of(graph), products)
    found = [(w, *s) for w in weights for s in backward.stretches(w)]
    return WeightGradients(*np.array(found, np.int64).reshape(-1, 4).T)


def within(graph: Graph, first: Int64, last: Int64) -> tuple[Int64, Int64]:
    """Stretches, each on one lane from an op to another, none where the first is NONE: of each op
    in one, which it is in, and the op itself."""
    by_lane = np.lexsort((np.arange(len(graph)), graph.ops.lane))
    at = np.empty(len(graph), np.int64)
    at[by_lane] = np.arange(len(graph))
    count = np.where(first == NONE, 0, at[last] - at[first] + 1)
    return np.repeat(np.arange(len(count)), count), by_lane[ragged(at[first], count)]


@dataclass(frozen=True, eq=False)
class _Backward:
    """Looks layers up."""

    graph: Graph
    gradients: Gradients
    steps: RankSteps
    products: Bool

    def stretches(self, weight: int) -> list[_Made]:
        """Of all ranks' steps; none where the layer runs several times in one, or is not told."""
        ready = self.gradients.op[self.gradients.parameter == weight]
        rows = self.steps.of_op[ready]
        parameter = self.graph.facts.parameters[weight]
        if len(np.unique(rows)) < len(rows):
            return []
        each = [list(self._of_step(parameter, last)) for last in ready.tolist()]
        return [stretch for one in each for stretch in one] if all(each) else []

    def _of_step(self, parameter: Parameter, last: int) -> Iterator[_Made]:
        calls = self._calls(parameter, last)
        if not 1 <= len(calls) <= 2:
            return
        begins, made = calls[0][0], self._making(parameter, calls)
        if made == len(calls) - 1:
            yield begins, calls[made][0], last
        else:
            yield begins, *calls[made]
            behind = self._lane(last)
            rest = behind[(behind > calls[-1][1]) & (behind <= last)]
            yield begins, int(rest[0]), last

    def _calls(self, parameter: Parameter, last: int) -> list[Stretch]:
        """The products of the layer's backward pass up to the op that readies the gradient."""
        ops, layer = self.graph.ops, self._numbers.get(parameter.layer, NONE)
        mine = self._of_layer.get((layer, int(self.steps.of_op[last])), [])
        found: list[Stretch] = []
        for row in mine:
            if row > last or ops.lane[row] != ops.lane[last]:
                continue
            if found and self._goes_on(found[-1], row):
                found[-1] = (found[-1][0], row)
            else:
                found.append((row, row))
        return found

    def _goes_on(self, call: Stretch, row: int) -> bool:
        """Whether an op belongs to the call before it. What stands between is then called by it,
        and does not bear the name of whoever made the call."""
        ops, (first, last) = self.graph.ops, call
        if ops.tensor[last] != NONE or ops.work[last] != ops.work[row]:
            return False
        lane = self._lane(row)
        at = int(np.searchsorted(lane, first))
        caller = ops.name[lane[at - 1]] if at else NONE
        between = lane[(lane > last) & (lane < row)]
        return not ((ops.name[between] == caller) | (ops.tensor[between] != NONE)).any()

    def _making(self, parameter: Parameter, calls: list[Stretch]) -> int:
        """Which of the calls makes the weight's gradient."""
        fits = [self._has_shape(first, parameter.shape) for first, _ in calls]
        return fits.index(True) if fits.count(True) == 1 else len(calls) - 1

    def _has_shape(self, op: int, shape: tuple[int, ...]) -> bool:
        told = self.graph[op].work
        dims = None if told is None else told.work.dims
        return isinstance(dims, Matrix) and dims.m * dims.n == prod(shape)

    def _lane(self, op: int) -> Int64:
        """The ops of an op's lane and step."""
        return self._by_lane[int(self.graph.ops.lane[op]), int(self.steps.of_op[op])]

    @cached_property
    def _by_lane(self) -> dict[tuple[int, int], Int64]:
        ops = self.graph.ops
        order = np.lexsort((np.arange(len(self.graph)), self.steps.of_op, ops.lane))
        lane, step = ops.lane[order], self.steps.of_op[order]
        begins = np.flatnonzero(np.append(True, (np.diff(lane) != 0) | (np.diff(step) != 0)))
        keys = zip(lane[begins].tolist(), step[begins].tolist())
        return dict(zip(keys, np.split(order, begins[1:])))

    @cached_property
    def _of_layer(self) -> dict[tuple[int, int], list[int]]:
        """Products of the backward pass by layer and rank's step."""
        ops, found = self.graph.ops, dict[tuple[int, int], list[int]]()
        rows = np.flatnonzero(self.products & (ops.phase == Phase.BACKWARD) & (ops.layer != NONE))
        for row, layer, step in zip(
            rows.tolist(), ops.layer[rows].tolist(), self.steps.of_op[rows].tolist()
        ):
            found.setdefault((layer, step), []).append(row)
        return found

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.graph.names)}
