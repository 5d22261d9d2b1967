"""FedAvg whose clients are held near the server's weights by a proximal term.

Li et al., "Federated Optimization in Heterogeneous Networks" (2020): each local step follows
g + mu (w - w0), w0 being what the server handed out. With mu 0 it is FedAvg.
"""

from dataclasses import dataclass

import numpy as np

from paceline.learn.algorithms.fedavg import FedAvg
from paceline.learn.local import Descent
from paceline.learn.samples import Vector


@dataclass(frozen=True)
class FedProx(FedAvg):
    mu: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.mu >= 0, "mu is 0 or more")

    def descent(self, begun: Vector, round_: int) -> Descent:
        if not self.mu:
            return Descent(self, round_)
        mu = np.float32(self.mu)
        return Descent(self, round_, lambda values, weights: values + mu * (weights - begun))
