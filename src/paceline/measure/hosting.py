"""What DTensors cost a processor, from steps that `torch_dtensors` timed with them and without."""

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


def dtensor_costs(found: Mapping[str, Sequence[Sequence[float]]]) -> DTensorCosts:
    """The median of what they take longer, turn by turn, and the middle half of the turns."""
    more = [
        [1e9 * (cut - plain) for cut, plain in zip(one, other)]
        for one, other in zip(found["cut"], found["plain"], strict=True)
    ]
    return DTensorCosts(*(_middle(column) for column in zip(*more)))


def _middle(values: Sequence[float]) -> Constant:
    low, middle, high = (max(0.0, each) for each in statistics.quantiles(values, n=4))
    return Constant(middle, low, high)
