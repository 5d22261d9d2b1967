"""A pipeline over machines that are far apart: their order, the cuts, and what passes slow links.

After FusionLLM (Tang et al., arXiv 2410.12707), of which the abstract was at hand: devices that are
near one another stay together in the pipeline (its OP-Fence), so that slow links are crossed as
seldom as can be, where the activations are small; and a link's messages are compressed by its
estimated transfer time (AdaTopK), only where it is what the pipeline waits for.

Wrong where several borders share a link at once (each is taken to have it to itself; the replayed
price does not), and above some eight machines in one group, of which only one order is tried.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise, permutations, product
from typing import Final

from paceline.place.distant.rates import Rates, neighbourhoods
from paceline.place.pipeline import LayerCost, PlanError
from paceline.place.pipeline.passing import down_bytes, share_for, up_bytes
from paceline.place.pipeline.profile import PipelineProfile, joined

MOST_ORDERS: Final = 5_000
LEAST_SHARE: Final = 0.05
"""Of the activations that pass a compressed border."""
MOST_SHARE: Final = 0.95
"""Of a border that is compressed: values in 16 bits take half of the bytes, so that nearly all of
them may pass."""


@dataclass(frozen=True)
class DistantPlan:
    """Stage i holds layers `cuts[i]` to `cuts[i + 1]`, without the last, on worker `order[i]`."""

    order: tuple[int, ...]
    cuts: tuple[int, ...]
    microbatch: int  # samples
    microbatches: int
    shares: tuple[float, ...]  # of the activations that pass each border; 1: all of them
    step_ns: float  # by the formula: fill and drain, and the slowest part for each micro-batch

    def stages(self, profile: PipelineProfile) -> tuple[LayerCost, ...]:
        layers = profile.sizes[self.microbatch]
        return tuple(joined(layers[a:b]) for a, b in pairwise(self.cuts))


@dataclass(frozen=True)
class Search:
    """`speeds` are the workers' speeds over the profiled one's; `compress` says by how much shorter
    the slowest border's messages get: of that many bytes, as many activations pass as can."""

    batch: int
    speeds: tuple[float, ...]
    compress: float = 0.0  # 0: nothing is compressed


def plan_distant(profile: PipelineProfile, rates: Rates, search: Search) -> list[DistantPlan]:
    """Plans by their formula's step, the fastest first: one for each order and micro-batch size."""
    _require(profile, rates, search)
    found = []
    for size, layers in profile.sizes.items():
        if search.batch % size:
            continue
        for order in orders(rates):
            cuts = best_cuts(layers, order, rates, search)
            found.append(_priced(layers, order, cuts, (size, search.batch // size), rates, search))
    if not found:
        raise PlanError(
            f"no profiled micro-batch of {sorted(profile.sizes)} samples divides a batch of "
            f"{search.batch}; profile one that does"
        )
    return sorted(found, key=lambda plan: plan.step_ns)


def orders(rates: Rates) -> Iterator[tuple[int, ...]]:
    """Orders of the workers in which every neighbourhood stays together."""
    groups = neighbourhoods(rates)

    def all_orders() -> Iterator[tuple[int, ...]]:
        for outer in permutations(groups):
            for inner in product(*(permutations(group) for group in outer)):
                yield tuple(worker for group in inner for worker in group)

    return islice(all_orders(), MOST_ORDERS)


def best_cuts(
    layers: Sequence[LayerCost], order: Sequence[int], rates: Rates, search: Search
) -> tuple[int, ...]:
    """Where to cut so that the slowest stage or border takes the least, and of such cuts where
    least time is spent on borders: exact, stage by stage."""
    work = [0, *accumulate(layer.compute_ns for layer in layers)]
    count = len(layers)
    known: dict[int, tuple[float, float, tuple[int, ...]]] = {0: (0.0, 0.0, (0,))}
    for stage, worker in enumerate(order):
        left = len(order) - stage - 1
        row = {}
        for end in range(stage + 1, count - left + 1) if left else (count,):
            ways = []
            for first, (slowest, passed, cuts) in known.items():
                if first < end:
                    busy = (work[end] - work[first]) / search.speeds[worker]
                    crossing = _border_ns(layers[first], order, stage, rates, search)
                    ways.append((max(slowest, busy, crossing), passed + crossing, (*cuts, end)))
            row[end] = min(ways)
        known = row
    return known[count][2]


def _border_ns(
    layer: LayerCost, order: Sequence[int], stage: int, rates: Rates, search: Search
) -> float:
    """Of one micro-batch's activations into a stage that begins with the layer, compressed as
    strongly as the slowest border is."""
    if stage == 0:
        return 0.0
    share = _share(1.0, search.compress) if search.compress else 1.0
    return rates.transfer_ns(order[stage - 1], order[stage], down_bytes(layer.input_bytes, share))


def _priced(
    layers: Sequence[LayerCost],
    order: tuple[int, ...],
    cuts: tuple[int, ...],
    batch: tuple[int, int],
    rates: Rates,
    search: Search,
) -> DistantPlan:
    busy = [
        sum(layer.compute_ns for layer in layers[a:b]) / search.speeds[worker]
        for a, b, worker in zip(cuts, cuts[1:], order)
    ]
    sizes = [layers[cut].input_bytes for cut in cuts[1:-1]]
    pairs = list(pairwise(order))
    whole = [rates.transfer_ns(*pair, size) for pair, size in zip(pairs, sizes)]
    shares = _shares(whole, max(busy), search.compress)
    down = [rates.transfer_ns(*p, down_bytes(s, k)) for p, s, k in zip(pairs, sizes, shares)]
    up = [rates.transfer_ns(b, a, up_bytes(s, k)) for (a, b), s, k in zip(pairs, sizes, shares)]
    update = max(
        sum(layer.update_ns for layer in layers[a:b]) / search.speeds[worker]
        for a, b, worker in zip(cuts, cuts[1:], order)
    )
    microbatch, microbatches = batch
    slowest = max([*busy, *down, *up])
    fill = sum(busy) + sum(down) + sum(up)
    step = fill + (microbatches - 1) * slowest + update
    return DistantPlan(order, cuts, microbatch, microbatches, shares, step)


def _shares(whole_ns: Sequence[float], busy_ns: float, compress: float) -> tuple[float, ...]:
    """What passes each border: less, the longer it takes beside the slowest; all where the slowest
    stage takes longer than the whole message."""
    if not compress or not whole_ns:
        return (1.0,) * len(whole_ns)
    longest = max(whole_ns)
    return tuple(_share(ns / longest, compress) if ns > busy_ns else 1.0 for ns in whole_ns)


def _share(of_longest: float, compress: float) -> float:
    """AdaTopK: bytes in inverse proportion to the transfer time."""
    ratio = compress * of_longest
    return 1.0 if ratio <= 1 else round(min(MOST_SHARE, max(LEAST_SHARE, share_for(1 / ratio))), 4)


def _require(profile: PipelineProfile, rates: Rates, search: Search) -> None:
    if len(search.speeds) != rates.workers or min(search.speeds) <= 0:
        raise PlanError(
            f"{len(search.speeds)} speeds for {rates.workers} workers, the least "
            f"{min(search.speeds, default=0):g}; give each worker one above zero"
        )
    if profile.layers < rates.workers:
        raise PlanError(
            f"{profile.layers} layers do not fill {rates.workers} workers; leave some out"
        )
    if search.compress < 0:
        raise PlanError(f"compress is {search.compress:g}; give 0 (nothing) or more")
