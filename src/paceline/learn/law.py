"""The laws that a learning curve may follow, and how likely each is: accuracy a - b (1 + r/s)^-c
behind r rounds.

Short runs do not tell which law they follow, so none is chosen: shapes (s, c) stand on a grid, for
each the judgements say which a and b are likely (least squares with a prior), and laws are drawn
from all shapes by how well they fit. Judgements that resemble their neighbours count as fewer.

What a run's beginning does not show is how far it leads. Laws whose a is free take the bend behind
the fast first part for the end and lead to a plateau that no longer run has; so the prior holds a
near 1 (errors fall as a slow power law), which longer runs of Fashion-MNIST bear out, and the first
judgements are left out.

Wrong where the learning rate falls behind the end of the run, where a model grows, and where a
training has a plateau that its beginning does not show.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DRAWS = 400
_STRETCHES = np.geomspace(0.003, 0.3, 7)  # of the run's length
_EXPONENTS = np.geomspace(0.1, 1.0, 9)
_LIMIT = (1.0, 0.04)
"""Of the prior of a: mean and deviation. Chosen on six trainings with one seed, of which the first
quarter and half were carried on."""
_WIDE = 10.0  # deviation of b's prior
_FIRST_SHARE = 0.4  # of the judgements, that a fit leaves out: no law holds from the first step
LEAST = 4
"""Judgements that a fit needs."""


@dataclass(frozen=True, eq=False)
class Laws:
    """Drawn ones, a number of each for every draw."""

    limit: Floats
    scale: Floats
    stretch: Floats
    exponent: Floats

    def crossing(self, target: float) -> Floats:
        """Behind how many rounds each reaches the target; infinity where it never does."""
        gap = self.limit - target
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            power = (self.scale / np.where(gap > 0, gap, np.nan)) ** (1 / self.exponent)
            found = self.stretch * (power - 1)
        return np.where(np.isfinite(found), np.maximum(found, 0.0), np.inf)

    def at(self, rounds: float) -> Floats:
        """Accuracy behind so many rounds."""
        found: Floats = self.limit - self.scale * (1 + rounds / self.stretch) ** -self.exponent
        return found


def laws_of(rounds: Floats, accuracy: Floats, error: float, seed: int = 0) -> Laws:
    """Drawn from what is likely behind these judgements, each give or take the error at least."""
    first = min(int(_FIRST_SHARE * len(rounds)), len(rounds) - LEAST)
    rounds, accuracy = rounds[max(0, first) :], accuracy[max(0, first) :]
    shapes = [(s, c) for s in _STRETCHES * rounds[-1] for c in _EXPONENTS]
    fits = [_Fit.of((1 + rounds / s) ** -c, accuracy) for s, c in shapes]
    variance = _variance(min(fits, key=lambda fit: fit.squares), error)
    posteriors = [_posterior(fit, variance) for fit in fits]
    return _drawn(shapes, posteriors, np.random.default_rng([seed, len(rounds)]))


@dataclass(frozen=True, eq=False)
class _Fit:
    """One shape's least squares."""

    table: Floats  # a column for a, one for b
    values: Floats
    left: Floats

    @staticmethod
    def of(falls: Floats, values: Floats) -> "_Fit":
        table = np.stack([np.ones_like(falls), -falls], axis=1)
        best, *_ = np.linalg.lstsq(table, values, rcond=None)
        return _Fit(table, values, values - table @ best)

    @property
    def squares(self) -> float:
        return float(self.left @ self.left)


def _variance(best: _Fit, error: float) -> float:
    """Of a judgement around the law, as if judgements were independent: neighbours that go
    together tell as much as fewer would."""
    left, free = best.left, max(1, len(best.left) - 4)
    alone = max(best.squares / free, error**2)
    going = float(left[1:] @ left[:-1]) / max(best.squares, 1e-12)
    together = min(0.8, max(0.0, going))
    return alone * (1 + together) / (1 - together)


@dataclass(frozen=True, eq=False)
class _Posterior:
    """Of a and b under one shape; `evidence` is the logarithm of how likely the shape is."""

    mean: Floats
    covariance: Floats
    evidence: float


def _posterior(fit: _Fit, variance: float) -> _Posterior:
    limit, wide = _LIMIT
    prior_mean = np.array([limit, 0.0])
    precision = np.diag([wide**-2, _WIDE**-2])
    whole = fit.table.T @ fit.table / variance + precision
    pull = fit.table.T @ fit.values / variance + precision @ prior_mean
    mean = np.linalg.solve(whole, pull)
    off, from_prior = fit.values - fit.table @ mean, mean - prior_mean
    misfit = off @ off / variance + from_prior @ precision @ from_prior
    volume = np.linalg.slogdet(whole)[1]
    covariance: Floats = np.linalg.inv(whole).astype(np.float64)
    return _Posterior(mean, covariance, float(-0.5 * (misfit + volume)))


def _drawn(
    shapes: list[tuple[float, float]], posteriors: list[_Posterior], drawn: np.random.Generator
) -> Laws:
    """Laws that fall (b below 0) or lead above 1 are drawn again, as far as that helps."""
    evidence = np.array([each.evidence for each in posteriors])
    likely = np.exp(evidence - evidence.max())
    picks = drawn.choice(len(shapes), 4 * DRAWS, p=likely / likely.sum())
    roots = [np.linalg.cholesky(each.covariance) for each in posteriors]
    normal = drawn.normal(size=(len(picks), 2))
    both = np.array([posteriors[p].mean + roots[p] @ n for p, n in zip(picks, normal)])
    fine = np.flatnonzero((both[:, 0] <= 1) & (both[:, 1] > 0))
    kept = fine[:DRAWS] if len(fine) else np.arange(DRAWS)
    table = np.array(shapes)[picks[kept]]
    limits = np.minimum(both[kept, 0], 1.0)
    return Laws(limits, np.maximum(both[kept, 1], 1e-9), table[:, 0], table[:, 1])
