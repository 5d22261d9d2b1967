"""How far each op's price may be off: by what it rests on, and kernels by their class too.

A carried kernel keeps its share of a forecast or of achieved rates, and how well either holds
differs from class to class. The figures are mean errors over pairs of devices that both were
measured: tables of shapes (benchmarks/accuracy/kernel_pairs.py) and traces of one model on two
devices (benchmarks/accuracy/kernels.py, `device_rows`), the larger where both tell of kernels. How
often such an interval holds a pair that it was not taken from is measured there too
(docs/accuracy.md).
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.cost.basis import SPREAD
from paceline.graph import Basis, DType, Graph
from paceline.graph.graph import UInt8
from paceline.graph.work import Family

CARRIED: Final[Mapping[Family, float]] = {
    Family.MATRIX: 0.17,
    Family.CONVOLUTION: 0.22,
    Family.ATTENTION: 0.32,
    Family.POINTWISE: 0.16,
    Family.COPY: 0.16,
    Family.NORM: 0.14,
    Family.REDUCTION: 0.07,
    Family.EMBEDDING: 0.55,
}
"""Of kernels carried from one GPU to another. Classes of which no pair tells have the basis's."""

CARRIED_FLOAT32: Final = 0.26
"""Of carried products in float32."""

FORETOLD: Final[Mapping[Family, float]] = {
    Family.MATRIX: 0.18,
    Family.GROUPED_MATRIX: 0.37,
    Family.CONVOLUTION: 0.24,
    Family.ATTENTION: 0.18,
    **dict.fromkeys(
        (Family.NORM, Family.BATCH_NORM, Family.SOFTMAX, Family.LOSS, Family.EMBEDDING,
         Family.REDUCTION,
         Family.POINTWISE, Family.COPY, Family.OPTIMIZER, Family.POOLING), 0.25),
}  # fmt: skip
"""Of kernels that nobody recorded: products and attention on devices left out of the tables, all
others kernels recorded on NVIDIA's GPUs (`forecast.moved`)."""

_BY_CLASS: Final = {Basis.SCALED: CARRIED, Basis.FORECAST: FORETOLD}
_BY_BASIS: Final = np.array([SPREAD[basis] for basis in Basis])


def spread_of(basis: Basis, family: Family) -> float:
    """As a share of the price."""
    return _BY_CLASS.get(basis, {}).get(family, SPREAD[basis])


def spreads_of(graph: Graph, basis: UInt8) -> NDArray[np.float64]:
    """Of each op of the graph whose price rests on that."""
    found = _BY_BASIS[basis]
    family = np.array([*(each.work.family for each in graph.works), Family.OTHER])[graph.ops.work]
    for kind, by_family in _BY_CLASS.items():
        for one, spread in by_family.items():
            found[(basis == kind) & (family == one)] = spread
    products = (basis == Basis.SCALED) & (family == Family.MATRIX)
    found[products & (graph.ops.dtype == DType.FLOAT32)] = CARRIED_FLOAT32
    return found
