"""Fitting `Learned` from measurements: coefficients first, then what they leave over.

The coefficients are found by damped Gauss-Newton on relative errors with what is typical as prior
(`cost.fit`), on a sample in which every device counts alike. The net learns the logarithm of what
is left. How far the result is off on devices that were not seen is measured, not assumed: each
device is left out in turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from paceline.cost.fit import fit_coefficients
from paceline.cost.forecast.asked import named, seconds
from paceline.cost.forecast.learned import Learned
from paceline.cost.forecast.likeness import likeness
from paceline.cost.forecast.method import Column, ForecastQuestion, Method
from paceline.cost.forecast.net import Learning, Net, learn

_A_DEVICE: Final = 500  # rows that the coefficients are fitted to


@dataclass(frozen=True, eq=False)
class Sample:
    """Measurements of one kind of operator on one device."""

    method: Method
    question: ForecastQuestion
    seconds: Column

    @property
    def device(self) -> str:
        return self.question.sheet.name

    def __len__(self) -> int:
        return len(self.seconds)

    def rows(self, chosen: Column) -> "Sample":
        """Some of the rows, by mask or index."""
        dims = {name: column[chosen] for name, column in self.question.dims.items()}
        return replace(
            self, question=replace(self.question, dims=dims), seconds=self.seconds[chosen]
        )


THOROUGH: Final = Learning(hidden=(48, 48), steps=6000)
USUAL: Final = Learning()


@dataclass(frozen=True)
class Effort:
    """How much is spent on a fit: the net for any device (none: the formulas alone), the net for
    devices that were measured, the same where a device is left out, and rounds for the
    coefficients."""

    net: Learning | None = None
    known: Learning = THOROUGH
    alike: Learning = USUAL
    rounds: int = 12


FORMULAS: Final = Effort()


def fit(samples: Sequence[Sample], effort: Effort = FORMULAS, *, known: bool = True) -> Learned:
    """What these measurements teach, of the devices in them (`known`) and of any other."""
    values = _coefficients(samples, effort)
    learned = Learned(values, rows=sum(map(len, samples)))
    left = [_left(sample, values) for sample in samples]
    if effort.net is not None:
        net = _net([_centred(*one) for one in left], samples, effort.net)
        learned = replace(learned, net=net)
    if not known:
        return learned
    devices = tuple(sample.device for sample in samples)
    with_names = [
        (named(features, at, devices), wanted) for at, (features, wanted) in enumerate(left)
    ]
    named_net = _net(with_names, samples, effort.known)
    method, dtype = samples[0].method, samples[0].question.dtype
    traits = tuple(method.traits(sample.question.sheet, dtype) for sample in samples)
    return replace(learned, known=named_net, devices=devices, traits=traits)


def left_out(samples: Sequence[Sample], effort: Effort = FORMULAS) -> dict[str, float]:
    """Mean error on each device, forecast by what the others taught."""
    found = {}
    for sample in samples:
        taught = taught_without(sample, samples, effort)
        if taught is not None:
            found[sample.device] = error_of(taught, sample)
    return found


def taught_without(
    left: Sample, samples: Sequence[Sample], effort: Effort = FORMULAS
) -> Learned | None:
    """What the other devices teach of one that is left out."""
    others = [one for one in samples if one.device != left.device]
    if not others:
        return None
    dtype, traits = left.question.dtype, left.method.traits
    likes = likeness(
        traits(left.question.sheet, dtype), [traits(one.question.sheet, dtype) for one in others]
    )
    return fit(others, replace(effort, known=effort.alike), known=any(likes))


def held_out(samples: Sequence[Sample], effort: Effort = FORMULAS) -> dict[str, tuple[float, int]]:
    """Mean error and count of each device's fifth of shapes, which the fit did not see."""
    parts = [held_back(sample) for sample in samples]
    learned = fit([kept for kept, _ in parts], replace(effort, net=None))
    return {held.device: (error_of(learned, held), len(held)) for _, held in parts if len(held)}


def fitted(samples: Sequence[Sample], effort: Effort = FORMULAS) -> Learned:
    """What all of them teach, with how far off it is on devices left out and shapes held back."""
    devices = left_out(samples, effort).values()
    shapes = held_out(samples, effort).values()
    rows = sum(count for _, count in shapes)
    return replace(
        fit(samples, effort),
        spread=sum(devices) / len(devices) if devices else 0.5,
        known_spread=sum(error * count for error, count in shapes) / max(rows, 1),
    )


def error_of(learned: Learned, sample: Sample) -> float:
    """Mean of |forecast / measured - 1|."""
    forecast = seconds(sample.method, sample.question, learned)
    return float(np.abs(forecast / sample.seconds - 1).mean())


def held_back(sample: Sample, every: int = 5) -> tuple[Sample, Sample]:
    """A sample without each fifth row, and those rows; rows of one shape stay together."""
    keys = np.zeros(len(sample), np.uint64)
    for column in sample.question.dims.values():
        keys = keys * np.uint64(1_000_003) + column.astype(np.float64).view(np.uint64)
    keys = (keys ^ (keys >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    held = (keys >> np.uint64(33)) % np.uint64(every) == 0
    return sample.rows(~held), sample.rows(held)


def _coefficients(samples: Sequence[Sample], effort: Effort) -> dict[str, float]:
    method, rng = samples[0].method, np.random.default_rng(0)
    few = [
        one.rows(rng.choice(len(one), min(len(one), _A_DEVICE), replace=False)) for one in samples
    ]
    measured = np.concatenate([one.seconds for one in few]).astype(np.float64)

    def predict(values: dict[str, float]) -> np.ndarray:
        times = [method.estimate(one.question, values).seconds for one in few]
        return np.concatenate(times).astype(np.float64)

    noise = 0.2 * np.sqrt(len(measured) / 200)  # so that the priors weigh as much as 200 rows
    return fit_coefficients(method.coefficients, predict, measured, noise, effort.rounds)


def _left(sample: Sample, values: Mapping[str, float]) -> tuple[Column, Column]:
    """Features, and the logarithm of measured over the formulas."""
    estimate = sample.method.estimate(sample.question, values)
    return estimate.features, np.log(sample.seconds / estimate.seconds)


def _centred(features: Column, wanted: Column) -> tuple[Column, Column]:
    """Without what is the device's own: that tells nothing of another one."""
    return features, wanted - np.median(wanted)


def _net(left: Sequence[tuple[Column, Column]], samples: Sequence[Sample], how: Learning) -> Net:
    features = np.concatenate([one for one, _ in left])
    wanted = np.concatenate([one for _, one in left])
    weight = np.concatenate([np.full(len(one), 1 / len(one)) for one in samples])
    return learn(features, wanted, weight, how)
