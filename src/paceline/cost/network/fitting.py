"""`fit`: a machine's coefficients from a few measured networks, by robust least squares.

Calls come first: each kind's coefficients, at least 0, by least squares of relative errors, with
outliers damped. Then whole passes: what share of a watched call's time an unwatched pass shows, and
what lies between calls, near 1 and near what watching left over.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.cost.errors import CostError
from paceline.cost.network.latency import LatencyModel, MeasuredNetwork
from paceline.cost.network.terms import CallKind, Terms, kind_of, terms_of

FEWEST: Final = 3  # networks
_ROUNDS: Final = 8
_DAMPED: Final = 0.15  # relative errors beyond this count linearly
_SHARE_WIDTH: Final = 0.25  # how far a kind's share is likely to lie from 1
_BETWEEN_NS: Final = 3000.0
_NOISE: Final = 0.03  # of a whole pass

Matrix = NDArray[np.float64]
Samples = Mapping[CallKind, tuple[Matrix, Terms]]


def fit(measured: Sequence[MeasuredNetwork], peak_flops_per_s: float = 0.0) -> LatencyModel:
    """The model, with its error on each network when learned from the others."""
    if len(measured) < FEWEST:
        raise CostError(f"{len(measured)} networks were measured; give {FEWEST} or more")
    model = _fitted(measured, peak_flops_per_s)
    return LatencyModel(
        model.coefficients, model.shares, model.between_ns, peak_flops_per_s,
        tuple(each.name for each in measured), _left_out(measured),
    )  # fmt: skip


def nonnegative(rows: Matrix, wanted: Terms) -> Terms:
    """The least squares solution with no negative part (Lawson and Hanson, 1974)."""
    count = rows.shape[1]
    held = np.zeros(count, np.bool_)
    found = np.zeros(count)
    square, slope = rows.T @ rows, rows.T @ wanted
    for _ in range(3 * count):
        gain = slope - square @ found
        gain[held] = -np.inf
        if held.all() or gain.max() <= 1e-10 * max(1.0, float(np.abs(slope).max())):
            break
        held[int(gain.argmax())] = True
        found = _within(square, slope, held, found)
    return found


def _within(square: Matrix, slope: Terms, held: NDArray[np.bool_], found: Terms) -> Terms:
    """The solution on the parts that are held; those that would be negative are let go."""
    while True:
        trial = np.zeros(len(found))
        inner = square[np.ix_(held, held)]
        trial[held] = np.linalg.lstsq(inner, slope[held], rcond=None)[0]
        low = held & (trial <= 0)
        if not low.any():
            return trial
        step = float(np.min(found[low] / np.maximum(found[low] - trial[low], 1e-300)))
        found = found + step * (trial - found)
        held &= found > 1e-300
        if not held.any():
            return np.zeros(len(found))


def robust(rows: Matrix, times: Terms) -> Terms:
    """Relative errors, outliers damped; columns are brought to one size first."""
    relative = rows / times[:, None]
    size = np.maximum(np.linalg.norm(relative, axis=0), 1e-300)
    relative, weight = relative / size, np.ones(len(times))
    found = np.zeros(rows.shape[1])
    for _ in range(_ROUNDS):
        root = np.sqrt(weight)
        found = nonnegative(relative * root[:, None], root)
        error = np.abs(relative @ found - 1)
        weight = _DAMPED / np.maximum(error, _DAMPED)
    return np.asarray(found / size, np.float64)


def _fitted(measured: Sequence[MeasuredNetwork], peak: float) -> LatencyModel:
    coefficients = {kind: robust(*rows) for kind, rows in _samples(measured).items()}
    coefficients[CallKind.OTHER] = _any_call(measured)
    plain = LatencyModel(coefficients, {}, 0.0, peak)
    shares, between = _whole_passes(plain, measured)
    return LatencyModel(coefficients, shares, between, peak)


def _samples(measured: Sequence[MeasuredNetwork]) -> Samples:
    """Of kinds with more calls than coefficients."""
    rows, times = defaultdict(list), defaultdict(list)
    for each in measured:
        for call, took in zip(each.calls, each.call_ns):
            if took > 0:
                rows[kind_of(call)].append(terms_of(call))
                times[kind_of(call)].append(float(took))
    return {
        kind: (np.stack(found), np.array(times[kind]))
        for kind, found in rows.items()
        if len(found) > len(found[0])
    }


def _any_call(measured: Sequence[MeasuredNetwork]) -> Terms:
    """By bytes alone, of calls of all kinds."""
    pairs = [(c.work, t) for each in measured for c, t in zip(each.calls, each.call_ns) if t > 0]
    rows = np.array([[1.0, w.read_bytes, w.written_bytes, 0.0] for w, _ in pairs])
    return robust(rows, np.array([float(took) for _, took in pairs]))


def _whole_passes(
    plain: LatencyModel, measured: Sequence[MeasuredNetwork]
) -> tuple[dict[CallKind, float], float]:
    """Shares by kind and the time between calls, from whole passes and what is likely."""
    parts = [plain.by_kind_ns(each.calls) for each in measured]
    kinds = list(dict.fromkeys(kind for part in parts for kind in part))
    whole = np.array([float(each.latency_ns) for each in measured])
    rows = np.array([[part.get(kind, 0.0) for kind in kinds] for part in parts])
    counts = np.array([[float(len(each.calls))] for each in measured]) * _BETWEEN_NS
    fitted = np.concatenate([rows, counts], axis=1) / whole[:, None] / _NOISE
    likely = np.eye(len(kinds) + 1) / _SHARE_WIDTH
    likely[-1, -1] = 1.0
    wanted = np.concatenate([np.full(len(whole), 1 / _NOISE), likely.diagonal()])
    found = nonnegative(np.concatenate([fitted, likely]), wanted)
    return dict(zip(kinds, found[:-1].tolist())), float(found[-1] * _BETWEEN_NS)


def _left_out(measured: Sequence[MeasuredNetwork]) -> float:
    if len(measured) <= FEWEST:
        return 0.0
    errors = []
    for at, each in enumerate(measured):
        model = _fitted([*measured[:at], *measured[at + 1 :]], 0.0)
        errors.append(abs(model.latency_ns(each.calls) / each.latency_ns - 1))
    return float(np.mean(errors))
