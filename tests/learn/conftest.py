"""Three clouds of points, which a softmax regression learns in some hundred steps."""

import numpy as np
import pytest

from paceline.learn import Equal, Partition, Samples, Setting, Split, Task, algorithm, split
from paceline.learn.softmax import Softmax


class Toy:
    """What tests of this room train."""

    def clouds(self, count: int = 240, seed: int = 0) -> Samples:
        drawn = np.random.default_rng(seed)
        labels = np.arange(count) % 3
        centres = np.array([[2, 0, 0, 1], [0, 2, 0, 1], [0, 0, 2, 1]], np.float32)
        noise = drawn.normal(size=(count, 4)).astype(np.float32)
        return Samples(centres[labels] + 0.6 * noise, labels, np.arange(count) // 20)

    def learner(self) -> Softmax:
        return Softmax(self.clouds(), self.clouds(seed=1))

    def dealt(self, clients: int = 4, how: Split | None = None) -> Partition:
        return split(self.clouds(), clients, how or Equal(), seed=1)

    def task(self, text: str, rounds: int = 5, clients: int = 4, how: Split | None = None) -> Task:
        made = algorithm(text)
        return Task(self.learner(), self.dealt(clients, how), made, rounds, test_samples=240)

    def setting(self, rounds: int = 5, clients: int = 4) -> Setting:
        return Setting(self.learner(), self.dealt(clients).sizes, rounds, seed=1)


@pytest.fixture(scope="session")
def toy() -> Toy:
    return Toy()
