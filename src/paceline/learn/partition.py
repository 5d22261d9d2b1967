"""Which client has which samples: equally, by class, by Dirichlet concentration, by source.

split(samples, clients=5, how=ByClass(skew=0.6), seed=1)
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.learn.errors import LearnError
from paceline.learn.samples import Rows, Samples
from paceline.learn.settings import parsed


class Split(ABC):
    """A frozen dataclass whose fields are the settings."""

    @abstractmethod
    def rows(self, samples: Samples, clients: int, drawn: np.random.Generator) -> list[Rows]:
        """Of each client; every row is somebody's, and nobody's twice."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Rows of each client, and how many of each class they are."""

    rows: tuple[Rows, ...]
    counts: Rows  # clients x classes
    how: Split

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(rows) for rows in self.rows)

    @property
    def skew(self) -> float:
        """How far a sample's client is from the whole: half the sum of absolute differences of
        class shares (total variation), mean over samples. 0: every client has the whole's mixture;
        with n equal classes, 1 - k/n where each client has k of them to itself."""
        whole = self.counts.sum(axis=0) / self.counts.sum()
        each = self.counts / self.counts.sum(axis=1, keepdims=True)
        apart = np.abs(each - whole).sum(axis=1) / 2
        return float(np.average(apart, weights=self.counts.sum(axis=1)))


def split(samples: Samples, clients: int, how: Split, seed: int) -> Partition:
    """Every client gets a sample at least, or this refuses."""
    if clients < 1:
        raise LearnError(f"{clients} clients were asked for; give 1 or more")
    if clients > len(samples):
        raise LearnError(
            f"{clients} clients cannot share {len(samples)} samples: each needs one at least. "
            "Give fewer clients or more samples."
        )
    _require_classes(samples)
    drawn = np.random.default_rng([seed, 1])
    rows = tuple(np.sort(mine) for mine in how.rows(samples, clients, drawn))
    for number, mine in enumerate(rows):
        if not len(mine):
            raise LearnError(
                f"client {number} of {clients} gets no sample under {how}; give fewer clients, or "
                "a milder split"
            )
    counts = [np.bincount(samples.labels[mine], minlength=samples.classes) for mine in rows]
    return Partition(rows, np.array(counts, np.int64), how)


def _require_classes(samples: Samples) -> None:
    empty = np.flatnonzero(np.bincount(samples.labels, minlength=samples.classes) == 0)
    if len(empty):
        raise LearnError(
            f"class {int(empty[0])} has no samples, of {samples.classes} classes; number the "
            "classes from 0 without gaps, or give samples of each"
        )


@dataclass(frozen=True)
class Equal(Split):
    """Each client's share is drawn from all alike."""

    def rows(self, samples: Samples, clients: int, drawn: np.random.Generator) -> list[Rows]:
        return np.array_split(drawn.permutation(len(samples)), clients)


@dataclass(frozen=True)
class ByClass(Split):
    """This share of the samples is dealt out class after class, the rest equally: at 1 a client of
    five has two of ten classes to itself. As in Hsieh et al., "The Non-IID Data Quagmire" (2020).
    """

    skew: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.skew <= 1:
            raise LearnError(f"{self}: a skew is a share from 0 to 1")

    def rows(self, samples: Samples, clients: int, drawn: np.random.Generator) -> list[Rows]:
        order = drawn.permutation(len(samples))
        dealt, alike = np.split(order, [round(self.skew * len(samples))])
        dealt = dealt[np.argsort(samples.labels[dealt], kind="stable")]
        parts = zip(np.array_split(dealt, clients), np.array_split(alike, clients)[::-1])
        return [np.concatenate(both) for both in parts]


@dataclass(frozen=True)
class Dirichlet(Split):
    """Each client draws its mixture of classes from a Dirichlet distribution around the whole's,
    and then as many samples as every other. The smaller the concentration, the fewer classes a
    client has. Hsu et al., "Measuring the Effects of Non-Identical Data Distribution" (2019).
    """

    concentration: float = 0.1

    def __post_init__(self) -> None:
        if not self.concentration > 0:
            raise LearnError(f"{self}: a concentration is above 0")

    def rows(self, samples: Samples, clients: int, drawn: np.random.Generator) -> list[Rows]:
        order = drawn.permutation(len(samples))
        left = [order[samples.labels[order] == label].tolist() for label in range(samples.classes)]
        prior = np.bincount(samples.labels) / len(samples)
        sizes = [len(part) for part in np.array_split(order, clients)]
        return [self._client(size, prior, left, drawn) for size in sizes]

    def _client(
        self,
        size: int,
        prior: NDArray[np.float64],
        left: list[list[int]],
        drawn: np.random.Generator,
    ) -> Rows:
        """A class that has run out gives its share to the others."""
        mixture = drawn.dirichlet(self.concentration * len(prior) * prior) + 1e-12
        mine: list[int] = []
        while len(mine) < size:
            open_ = mixture * [bool(rows) for rows in left]
            wanted = drawn.multinomial(size - len(mine), open_ / open_.sum())
            for label, count in enumerate(wanted.tolist()):
                taken = min(count, len(left[label]))
                mine += left[label][:taken]
                del left[label][:taken]
        return np.array(mine, np.int64)


@dataclass(frozen=True)
class BySource(Split):
    """All samples of one source stay together; sources go, the largest first, to the client that
    has the fewest samples."""

    def rows(self, samples: Samples, clients: int, drawn: np.random.Generator) -> list[Rows]:
        if samples.sources is None:
            raise LearnError(
                "these samples do not say who made them, so they cannot be split by source; give "
                "`sources`, or another split"
            )
        sources, counts = np.unique(samples.sources, return_counts=True)
        if clients > len(sources):
            raise LearnError(
                f"{clients} clients cannot share {len(sources)} sources that stay together; give "
                f"{len(sources)} clients or fewer"
            )
        mine: list[list[int]] = [[] for _ in range(clients)]
        sizes = np.zeros(clients, np.int64)
        for at in np.argsort(-counts, kind="stable").tolist():
            fewest = int(sizes.argmin())
            mine[fewest].append(int(sources[at]))
            sizes[fewest] += counts[at]
        return [np.flatnonzero(np.isin(samples.sources, own)) for own in mine]


SPLITS: Mapping[str, type[Split]] = {
    "equal": Equal,
    "by_class": ByClass,
    "dirichlet": Dirichlet,
    "by_source": BySource,
}


def how(text: str) -> Split:
    """A split written as text: `by_class(skew=0.6)`."""
    return parsed(text, SPLITS, "partition")
