"""The gradient noise scale: up to which batch twice the samples bring nearly half the steps.

McCandlish et al., "An Empirical Model of Large-Batch Training" (2018), appendix A.1: the squared
length of a mean gradient is |G|^2 + tr(S) / batch, G being the true gradient and S what single
samples scatter around it. Two batch sizes tell both; a data-parallel step has them at hand: one
worker's gradient before the exchange, and the mean of all behind it. The simple noise scale is
tr(S) / |G|^2. Both are means over steps before they are divided, as the quotient is biased.

Steps to a target are then least steps times (1 + scale / batch), samples least samples times
(1 + batch / scale), where the learning rate is set anew for each batch.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paceline.graph.atomic import atomic_file
from paceline.learn.errors import LearnError

FORMAT = 1
LEAST_STEPS = 10
_RESAMPLED = 400


@dataclass(frozen=True)
class Norms:
    """Squared lengths of one step's gradients: mean over the small batches, and of their mean."""

    small: float
    big: float
    times: int  # how many small batches make the big one


@dataclass(frozen=True)
class NoiseScale:
    """In batches of all workers as they ran, with an interval (5 to 95 %)."""

    batches: float
    low: float
    high: float
    workers: int
    steps: int

    def of_workers(self, count: int) -> float:
        """In batches of as many workers, each with the same share of samples."""
        return self.batches * self.workers / count


def noise_scale(steps: Sequence[Norms], workers: int) -> NoiseScale:
    """Refused where there is nothing to tell it from."""
    if len(steps) < LEAST_STEPS:
        raise LearnError(
            f"{len(steps)} steps tell too little of the gradient noise; give {LEAST_STEPS} or more"
        )
    if min(step.times for step in steps) < 2:
        raise LearnError(
            "every step had one batch alone, and the noise scale is told from two sizes of it; "
            "start two workers or more (data parallel)"
        )
    table = np.array([[step.small, step.big, step.times] for step in steps])
    if not np.isfinite(table).all():
        raise LearnError("gradients are infinite or not a number; give a smaller learning rate")
    found = _scale(table.mean(axis=0))
    if not np.isfinite(found):
        raise LearnError(
            f"over {len(steps)} steps the gradient cannot be told from its noise: workers' "
            "gradients agree no more than chance makes them. Measure over more steps (--steps), or "
            "earlier in the training"
        )
    drawn = np.random.default_rng(len(steps))
    picks = drawn.integers(0, len(table), (_RESAMPLED, len(table)))
    scales = np.array([_scale(table[pick].mean(axis=0)) for pick in picks])
    low, high = np.percentile(scales, [5, 95], method="nearest").tolist()
    return NoiseScale(found, low, high, workers, len(steps))


def save_noise(scale: NoiseScale, path: Path) -> None:
    told = {"format": FORMAT, **asdict(scale), "high": _or_none(scale.high)}
    with atomic_file(path) as draft:
        draft.write_text(json.dumps(told, allow_nan=False) + "\n")


def load_noise(path: Path) -> NoiseScale:
    try:
        told = json.loads(path.read_text())
        if told.pop("format") != FORMAT:
            raise LearnError(f"{path} is of another version; measure the noise scale anew")
        high = float("inf") if told["high"] is None else told["high"]
        return NoiseScale(**{**told, "high": high})
    except OSError as error:
        raise LearnError(
            f"cannot read {path}: {error.strerror}; `paceline learn noise -o FILE` makes one"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LearnError(f"{path} is no noise scale of `paceline learn noise`: {error}") from error


def _scale(means: NDArray[np.float64]) -> float:
    """tr(S) / |G|^2 in big batches; infinity where no gradient stands out of the noise."""
    small, big, times = means.tolist()
    gradient, noise = (times * big - small) / (times - 1), (small - big) / (times - 1)
    return max(0.0, noise) / gradient if gradient > 0 else float("inf")


def _or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None
