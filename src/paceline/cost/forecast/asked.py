"""The forecast of a question: the formulas, corrected by what was learned, with an interval."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.cost.forecast.learned import Constants, Learned, Refinement
from paceline.cost.forecast.likeness import likeness
from paceline.cost.forecast.method import Column, ForecastQuestion, Method

_CHUNK: Final = 4096  # rows whose columns fit a core's cache
_MANY: Final = 16


@dataclass(frozen=True, eq=False)
class Forecast:
    """Nanoseconds of each operator; `low_ns` and `high_ns` are a mean error away."""

    dur_ns: Column
    low_ns: Column
    high_ns: Column
    rests_on: str


@dataclass(frozen=True)
class Kind:
    """A method, and the keys under which its constants lie, best first. `launch_s` stands in place
    of the launch that was fitted, where that is the host's."""

    method: Method
    keys: tuple[str, ...]
    launch_s: float | None = None


def ask(kind: Kind, question: ForecastQuestion, constants: Constants) -> Forecast:
    """A device that was measured is known by name; any other is told by its sheet alone."""
    learned = constants.of(kind.keys)
    chunks = [_part(question, at) for at in range(0, len(question), _CHUNK)]
    parts = _each(lambda part: seconds(kind.method, part, learned, kind.launch_s), chunks)
    dur_ns = (np.concatenate(parts) if parts else np.zeros(0, np.float32)) * np.float32(1e9)
    known = learned.known_as(question.sheet.name) is not None
    wide = np.float32(1 + (learned.known_spread if known else learned.spread))
    rests_on = f"measured on {question.sheet.name}" if known else "devices like it"
    return Forecast(dur_ns, dur_ns / wide, dur_ns * wide, rests_on)


def refined_by(found: Forecast, refinement: Refinement | None, device: str) -> Forecast:
    """Corrected by what was measured on the device itself, where something was. Of kernels alone:
    nothing was measured there of a host."""
    if refinement is None:
        return found
    dur_ns = found.dur_ns * refinement.factors_at(found.dur_ns)
    wide = np.float32(1 + refinement.spread)
    return Forecast(dur_ns, dur_ns / wide, dur_ns * wide, f"refined on this {device}")


def seconds(
    method: Method, question: ForecastQuestion, learned: Learned, launch_s: float | None = None
) -> Column:
    estimate = method.estimate(question, learned.values)
    correction = _correction(estimate.features, method, question, learned)
    if launch_s is not None:
        estimate = method.estimate(question, {**learned.values, "launch_s": launch_s})
    if correction is None:
        return estimate.seconds
    return np.asarray(estimate.seconds * np.exp(correction), np.float32)


def _correction(
    features: Column, method: Method, question: ForecastQuestion, learned: Learned
) -> Column | None:
    """Of a device that was measured its own; of others what all taught, and the more alike they are
    to devices that were measured, what these did."""
    known, sheet = learned.known, question.sheet
    name = learned.known_as(sheet.name)
    if known is not None and name is not None:
        return known(named(features, learned.devices.index(name), learned.devices))
    general = None if learned.net is None else learned.net(features)
    if known is None or not learned.traits:
        return general
    likes = likeness(method.traits(sheet, question.dtype), learned.traits)
    if not any(likes):
        return general
    mine = sum(
        np.float32(like / sum(likes)) * known(named(features, at, learned.devices))
        for at, like in enumerate(likes)
        if like
    )
    whole = np.float32(max(likes))
    left = np.float32(0) if general is None else general
    return np.asarray(whole * mine + (1 - whole) * left, np.float32)


def named(features: Column, device: int, devices: tuple[str, ...]) -> Column:
    """Features with the device's own column set."""
    which = np.zeros((len(features), len(devices)), np.float32)
    which[:, device] = 1
    return np.concatenate([features, which], axis=1)


def _each(
    one: Callable[[ForecastQuestion], Column], chunks: Sequence[ForecastQuestion]
) -> list[Column]:
    """All chunks; many of them on all cores, since NumPy computes without Python's lock."""
    if len(chunks) < _MANY:
        return [one(chunk) for chunk in chunks]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(one, chunks))


def _part(question: ForecastQuestion, at: int) -> ForecastQuestion:
    dims = {name: column[at : at + _CHUNK] for name, column in question.dims.items()}
    return ForecastQuestion(dims, question.dtype, question.sheet, question.variant)
