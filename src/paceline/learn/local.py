"""`descend`: a client's local steps, SGD with momentum, with a method's own change of gradients."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from paceline.learn.algorithm import Algorithm, Setting
from paceline.learn.client import Client
from paceline.learn.samples import Vector

Correct = Callable[[Vector, Vector], Vector]
"""From a gradient and the weights it was taken at to the gradient that is followed."""


@dataclass(frozen=True, eq=False)
class Descent:
    """How a client steps in a round."""

    algorithm: Algorithm
    round: int
    correct: Correct | None = None
    velocity: Vector | None = None  # kept from round to round; None: begins at 0
    stage: int | None = None
    share: float = 1.0  # of the learning rate
    steps: int = 0  # 0: the algorithm's

    def run(self, at: Setting, client: Client, weights: Vector) -> float:
        """Moves the weights; returns the mean loss of the steps."""
        how, trained = self.algorithm, at.learner.trained
        rate, losses = np.float32(self.share * how.rate(at, self.round)), 0.0
        momentum, steps = np.float32(how.momentum), self.steps or how.steps
        velocity = np.zeros(trained, np.float32) if self.velocity is None else self.velocity
        for _ in range(steps):
            rows = client.batch(how.batch_of(client.number))
            found = at.learner.gradient(weights, rows, self.stage)
            values = found.values
            if self.correct is not None:
                values = self.correct(values, weights[:trained])
            velocity *= momentum
            velocity += values
            weights[:trained] -= rate * velocity
            losses += found.loss
        return losses / steps
