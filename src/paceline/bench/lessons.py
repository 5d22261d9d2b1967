"""What follows from one workload's points at several batches: one rule a function."""

from collections.abc import Callable, Sequence
from typing import Final

from paceline.analyse.observations import Observation
from paceline.bench.point import Point, Unfit

SATURATED: Final = 0.95  # of the best throughput
GROWS: Final = 0.05

Curve = Sequence[Point]
"""One workload's points on one number of workers, from the smallest batch up."""


def saturation(curve: Curve) -> Point:
    """The smallest batch that has nearly the best throughput."""
    best = max(point.throughput for point in curve)
    return next(point for point in curve if point.throughput >= SATURATED * best)


def saturates(curve: Curve) -> str | None:
    """Where a larger batch brings nothing more, or that it still does."""
    if len(curve) < 2:
        return None
    at, last = saturation(curve), curve[-1]
    if at is last:
        gain = last.throughput / curve[-2].throughput - 1
        return (
            f"throughput still grows at the largest batch tried: {last.key.batch} has "
            f"{_percent(gain)} more than {curve[-2].key.batch}"
        )
    best = max(curve, key=lambda point: point.throughput)
    if at is curve[0]:
        return (
            f"throughput does not grow with the batch: {at.key.batch} has nearly the best already"
        )
    return (
        f"throughput saturates at batch {at.key.batch}: {at.throughput:,.0f} of "
        f"{best.throughput:,.0f} samples/s, {at.throughput / curve[0].throughput:.1f} times that "
        f"of batch {curve[0].key.batch}"
    )


def halving(curve: Curve) -> str | None:
    """What half of the largest batch frees and costs."""
    pairs = {point.key.batch: point for point in curve}
    last = curve[-1]
    half = pairs.get(last.key.batch // 2)
    if half is None or last.structure is None or half.structure is None:
        return None
    held = last.structure
    freed = held.peak_bytes - half.structure.peak_bytes
    cost = 1 - half.throughput / last.throughput
    words = f"costs {_percent(cost)} throughput" if cost > 0 else f"brings {_percent(-cost)} more"
    return (
        f"{held.largest} {held.verb} {_percent(held.share(held.largest))} of "
        f"the peak at batch {last.key.batch}; halving it frees {_size(freed)} and {words}"
    )


def activations_grow(curve: Curve) -> str | None:
    """The share of activations over the batch sizes."""
    known = [point for point in curve if point.structure is not None]
    if len(known) < 2:
        return None
    low, high = (
        point.structure.share("activations") if point.structure else 0.0
        for point in (known[0], known[-1])
    )
    if high - low < GROWS:
        return None
    return (
        f"activations grow from {_percent(low)} of the peak at batch {known[0].key.batch} to "
        f"{_percent(high)} at {known[-1].key.batch}"
    )


def utilisation_grows(curve: Curve) -> str | None:
    """The share of the machine's peak over the batch sizes."""
    first, last = curve[0], curve[-1]
    if len(curve) < 2 or abs(last.of_peak - first.of_peak) < GROWS:
        return None
    way = "rises" if last.of_peak > first.of_peak else "falls"
    return (
        f"the share of the machine's peak {way} from {_percent(first.of_peak)} to "
        f"{_percent(last.of_peak)} between batches {first.key.batch} and {last.key.batch}"
    )


OVER_BATCHES: Final[tuple[Callable[[Curve], str | None], ...]] = (
    saturates,
    halving,
    activations_grow,
    utilisation_grows,
)


def over_batches(curve: Curve, unfit: Sequence[Unfit] = ()) -> tuple[Observation, ...]:
    """All that the rules say of one curve; and of batches that did not fit."""
    said = [(rule.__name__, rule(curve)) for rule in OVER_BATCHES] if curve else []
    said += [("fits", fits(each)) for each in unfit]
    return tuple(Observation(name, text) for name, text in said if text)


def fits(unfit: Unfit) -> str:
    room = f" in {_size(unfit.limit_bytes)}" if unfit.limit_bytes else ""
    said = f"batch {unfit.key.batch} does not fit{room}"
    if not unfit.fits:
        return f"{said}, and no smaller one that was tried does"
    return f"{said}; {unfit.fits} does"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _size(count: float) -> str:
    for factor, unit in ((1e9, "GB"), (1e6, "MB")):
        if abs(count) >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"
