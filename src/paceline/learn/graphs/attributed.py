"""`Attributed`: a graph whose nodes have features and labels; and one made of samples.

No public graph with features and labels comes with a package, so `nearest_neighbours` derives one:
its features and labels are real, its edges are not.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.learn.errors import LearnError
from paceline.learn.samples import Rows, Samples

_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class Attributed:
    """Undirected, without loops: the neighbours of node i are `to[ptr[i]:ptr[i + 1]]`."""

    features: NDArray[np.float32]  # nodes x features
    labels: Rows
    ptr: Rows
    to: Rows
    train: Rows  # nodes whose labels are learned from
    test: Rows

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def degrees(self) -> Rows:
        return np.diff(self.ptr)

    @staticmethod
    def of_edges(samples: Samples, edges: Rows, train_share: float, seed: int) -> "Attributed":
        """`edges` are pairs of nodes, in any order, once or twice."""
        count = len(samples)
        if not 0 < train_share < 1:
            raise LearnError(f"{train_share:g} of the nodes were to be learned from; give 0 to 1")
        if len(edges) and (edges.min() < 0 or edges.max() >= count):
            raise LearnError(
                f"an edge joins nodes {edges.min()} to {edges.max()}, and there are {count} nodes: "
                f"number them from 0 to {count - 1}"
            )
        both = np.unique(np.concatenate([edges, edges[:, ::-1]]), axis=0)
        both = both[both[:, 0] != both[:, 1]]
        ptr = np.zeros(count + 1, np.int64)
        np.add.at(ptr, both[:, 0] + 1, 1)
        order = np.random.default_rng([seed, 5]).permutation(count)
        cut = max(1, round(train_share * count))
        return Attributed(
            samples.inputs.reshape(count, -1),
            samples.labels,
            np.cumsum(ptr),
            both[:, 1].copy(),
            np.sort(order[:cut]),
            np.sort(order[cut:]),
        )

    def components(self) -> int:
        """Pieces without an edge between them."""
        left, found = np.ones(len(self), np.bool_), 0
        while left.any():
            found += 1
            front = np.flatnonzero(left)[:1]
            while len(front):
                left[front] = False
                reached = np.concatenate([self.to[self.ptr[n] : self.ptr[n + 1]] for n in front])
                front = np.unique(reached[left[reached]])
        return found


@dataclass(frozen=True)
class Neighbourhood:
    """`rewired`: this share of the edges leads anywhere instead, as in networks of people (Watts
    and Strogatz, "Collective dynamics of small-world networks", 1998)."""

    neighbours: int = 10
    rewired: float = 0.0
    train_share: float = 0.1
    seed: int = 1


def nearest_neighbours(samples: Samples, how: Neighbourhood) -> Attributed:
    """Each sample is joined to those that are most alike by the cosine of their features. Labels
    are not looked at."""
    neighbours = how.neighbours
    if not 0 < neighbours < len(samples):
        raise LearnError(
            f"{neighbours} neighbours of {len(samples)} samples were asked for; give 1 to "
            f"{len(samples) - 1}"
        )
    flat = samples.inputs.reshape(len(samples), -1)
    flat = flat / np.maximum(1e-9, np.linalg.norm(flat, axis=1, keepdims=True))
    edges = []
    for first in range(0, len(flat), _AT_ONCE):
        some = flat[first : first + _AT_ONCE] @ flat.T
        rows = np.arange(len(some))
        some[rows, first + rows] = -2
        near = np.argpartition(-some, neighbours, axis=1)[:, :neighbours]
        edges.append(np.stack([np.repeat(first + rows, neighbours), near.ravel()], axis=1))
    whole = np.concatenate(edges)
    drawn = np.random.default_rng([how.seed, 7])
    anywhere = drawn.random(len(whole)) < how.rewired
    whole[anywhere, 1] = drawn.integers(0, len(samples), int(anywhere.sum()))
    return Attributed.of_edges(samples, whole, how.train_share, how.seed)
