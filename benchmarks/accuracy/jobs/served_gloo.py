"""A parameter server over gloo: workers send their gradients, the server adds them up and sends the
weights back. A push and then a pull, each with all workers at once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Update = Callable[[slice], None]


class GlooServer:
    def __init__(self, group: Any) -> None:
        self._group = group
        self._workers = range(1, group.size())

    def step(self, sums: np.ndarray, values: np.ndarray, update: Update, step: int) -> None:
        rooms = [np.empty_like(sums) for _ in self._workers]
        _wait(
            self._group.recv([torch.from_numpy(r)], n, step) for n, r in zip(self._workers, rooms)
        )
        np.sum(rooms, axis=0, out=sums)
        update(slice(0, len(sums)))
        whole = torch.from_numpy(values)
        _wait(self._group.send([whole], worker, step) for worker in self._workers)

    def settle(self) -> None:
        """What was sent has been taken: gloo sends into a receive."""


class GlooWorker:
    def __init__(self, group: Any) -> None:
        self._group = group

    def step(self, gradient: np.ndarray, weights: np.ndarray, step: int) -> None:
        coming = self._group.recv([torch.from_numpy(weights)], 0, step)
        self._group.send([torch.from_numpy(gradient)], 0, step).wait()
        coming.wait()

    def settle(self) -> None:
        """The server has read all, since it has answered."""


def _wait(works: Any) -> None:
    for work in list(works):
        work.wait()
