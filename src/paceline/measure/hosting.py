"""What PyTorch's host spends beside work, from steps that were timed with it and without: on
DTensors (`torch_dtensors`), and on blocks of weights that FSDP2 cuts (`torch_blocks`)."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.measure.constant import Constant


@dataclass(frozen=True)
class DTensorCosts:
    """Constants of `Machine`, of one product each."""

    dtensor_forward_ns: Constant
    dtensor_backward_ns: Constant
    dtensor_update_ns: Constant


@dataclass(frozen=True)
class BlockCosts:
    """Constants of `Machine`: of a gather and of a reduction, of a block and of each weight."""

    gathered_block_ns: Constant
    gathered_weight_ns: Constant
    reduced_block_ns: Constant
    reduced_weight_ns: Constant


def dtensor_costs(found: Mapping[str, Sequence[Sequence[float]]]) -> DTensorCosts:
    """The median of what they take longer, turn by turn, and the middle half of the turns."""
    more = [
        [1e9 * (cut - plain) for cut, plain in zip(one, other)]
        for one, other in zip(found["cut"], found["plain"], strict=True)
    ]
    return DTensorCosts(*(_middle(column) for column in zip(*more)))


def block_costs(found: Mapping[str, Mapping[str, Sequence[Sequence[float]]]]) -> BlockCosts:
    """What passes take longer than plain ones and than their calls, turn by turn. Behind its
    forward pass a block is gathered again before its gradients are reduced."""
    (few, some), (many, more) = ((int(n), list(map(_beside, *_rows(t)))) for n, t in found.items())
    turns = []
    for (gather, both), (gathers, boths) in zip(some, more, strict=True):
        of_gather, of_both = ((b - a) / (many - few) for a, b in ((gather, gathers), (both, boths)))
        first, second = gather - few * of_gather, both - few * of_both
        turns.append((first, of_gather, second - first, of_both - of_gather))
    return BlockCosts(*(_middle(column) for column in zip(*turns)))


def _rows(times: Mapping[str, Sequence[Sequence[float]]]) -> tuple[Sequence[Sequence[float]], ...]:
    return times["plain"], times["cut"], times["calls"]


def _beside(
    plain: Sequence[float], cut: Sequence[float], calls: Sequence[float]
) -> tuple[float, float]:
    """Ns of a gather, and of one with the reduction behind it."""
    gather, reduce = calls
    return 1e9 * (cut[0] - plain[0] - gather), 1e9 * (cut[1] - plain[1] - gather - reduce)


def _middle(values: Sequence[float]) -> Constant:
    low, middle, high = (max(0.0, each) for each in statistics.quantiles(values, n=4))
    return Constant(middle, low, high)
