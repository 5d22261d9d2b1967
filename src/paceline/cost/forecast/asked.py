"""The forecast of a question: the formulas, corrected by what was learned, with an interval."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.cost.forecast.learned import Constants, Learned
from paceline.cost.forecast.method import Column, Method, Question

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
    """A method, and the keys under which its constants lie, best first."""

    method: Method
    keys: tuple[str, ...]


def ask(kind: Kind, question: Question, constants: Constants) -> Forecast:
    """A device that was measured is known by name; any other is told by its sheet alone."""
    learned = constants.of(kind.keys)
    chunks = [_part(question, at) for at in range(0, len(question), _CHUNK)]
    parts = _each(lambda part: seconds(kind.method, part, learned), chunks)
    dur_ns = (np.concatenate(parts) if parts else np.zeros(0, np.float32)) * np.float32(1e9)
    known = learned.known_as(question.sheet.name) is not None
    wide = np.float32(1 + (learned.known_spread if known else learned.spread))
    rests_on = f"measured on {question.sheet.name}" if known else "devices like it"
    return Forecast(dur_ns, dur_ns / wide, dur_ns * wide, rests_on)


def seconds(method: Method, question: Question, learned: Learned) -> Column:
    estimate = method.estimate(question, learned.values)
    features, net = estimate.features, learned.net
    name = learned.known_as(question.sheet.name)
    if name is not None and learned.known is not None:
        net = learned.known
        features = named(features, learned.devices.index(name), learned.devices)
    if net is None:
        return estimate.seconds
    return np.asarray(estimate.seconds * np.exp(net(features)), np.float32)


def named(features: Column, device: int, devices: tuple[str, ...]) -> Column:
    """Features with the device's own column set."""
    which = np.zeros((len(features), len(devices)), np.float32)
    which[:, device] = 1
    return np.concatenate([features, which], axis=1)


def _each(one: Callable[[Question], Column], chunks: Sequence[Question]) -> list[Column]:
    """All chunks; many of them on all cores, since NumPy computes without Python's lock."""
    if len(chunks) < _MANY:
        return [one(chunk) for chunk in chunks]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(one, chunks))


def _part(question: Question, at: int) -> Question:
    dims = {name: column[at : at + _CHUNK] for name, column in question.dims.items()}
    return Question(dims, question.dtype, question.sheet, question.variant)
