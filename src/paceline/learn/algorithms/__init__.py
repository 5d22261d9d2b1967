"""Algorithms by name, one a file; each names its paper."""

import sys
from collections.abc import Mapping

from paceline.learn.algorithm import Algorithm
from paceline.learn.algorithms.dgc import Dgc
from paceline.learn.algorithms.diloco import DiLoCo
from paceline.learn.algorithms.dlion import DLion
from paceline.learn.algorithms.fedavg import FedAvg
from paceline.learn.algorithms.feddst import FedDst
from paceline.learn.algorithms.fedprox import FedProx
from paceline.learn.algorithms.gaia import Gaia
from paceline.learn.algorithms.local_sgd import LocalSgd
from paceline.learn.algorithms.overlap_local_sgd import OverlapLocalSgd
from paceline.learn.algorithms.progfed import ProgFed
from paceline.learn.algorithms.scaffold import Scaffold
from paceline.learn.algorithms.skewscout import SkewScout
from paceline.learn.algorithms.synchronous import Synchronous
from paceline.learn.settings import parsed, spelled

_KINDS: tuple[type[Algorithm], ...] = (
    Synchronous, LocalSgd, FedAvg, FedProx, Scaffold, Gaia, Dgc, OverlapLocalSgd, DiLoCo,
    SkewScout, DLion, FedDst, ProgFed,
)  # fmt: skip

ALGORITHMS: Mapping[str, type[Algorithm]] = {
    kind.__module__.rpartition(".")[2]: kind for kind in _KINDS
}
"""An algorithm is called as its file."""


def algorithm(text: str) -> Algorithm:
    """An algorithm written as text: `fedavg(lr=0.1, server_momentum=0.9)`."""
    return parsed(text, ALGORITHMS, "algorithm")


def text_of(made: Algorithm) -> str:
    return spelled(made, ALGORITHMS)


def about(kind: type[Algorithm]) -> str:
    """The first sentence of its file."""
    doc = sys.modules[kind.__module__].__doc__ or ""
    return doc.strip().partition("\n\n")[0].replace("\n", " ")


__all__ = ["ALGORITHMS", "about", "algorithm", "text_of"]
