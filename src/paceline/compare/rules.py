"""The rules that name causes, in the order in which they may claim places."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np

from paceline.compare.causes import CauseKind, Claim, Rule, by_size
from paceline.compare.pair import LEARNS, WORKS, RunPair
from paceline.compare.places import WorkClass, WorkPlace
from paceline.graph import NONE, Phase

_DIFFERS: Final = 1.02  # a trait that differs by more is another one
_AS_LONG: Final = 3.0  # times what training threads wait longer, at most, messages do for cores
_ALONE: Final = 0.6  # of a rank's change that the other ranks do not have
_NOTICED: Final = 0.01  # of a step: less change in a layer is not looked into
_MAINLY: Final = 0.1  # of a layer's time in either run, at operators that came or went
_CROWDED: Final = 0.05  # of a step that threads wait longer for a core: transfers wait with them
_ONE_LAYER: Final = 0.6  # of all work's change, in one layer
Places = tuple[WorkPlace, ...]


def another_model(pair: RunPair, left: Places) -> Iterator[Claim]:
    """Work that one of two different models has and the other has not."""
    if pair.same_model:
        return
    common = set(pair.a.spent.places) & set(pair.b.spent.places)
    mine = tuple(p for p in left if p.work in WORKS and p not in common)
    yield Claim(CauseKind.MODEL, mine, before=pair.alike, after=pair.alike)


def input_takes_longer(pair: RunPair, left: Places) -> Iterator[Claim]:
    yield Claim(CauseKind.INPUT, tuple(p for p in left if p.work is WorkClass.INPUT))


def another_batch(pair: RunPair, left: Places) -> Iterator[Claim]:
    """Forward and backward work, where the batch differs."""
    before, after = pair.a.traits.batch_bytes, pair.b.traits.batch_bytes
    if _differs(before, after):
        mine = tuple(p for p in left if p.work in WORKS and p.phase in LEARNS)
        yield Claim(CauseKind.BATCH, mine, before=before, after=after)


def one_rank(pair: RunPair, left: Places) -> Iterator[Claim]:
    """Layers in which one rank changed and the others did not."""
    found: dict[int, dict[str, Places]] = defaultdict(dict)
    for layer, places in _layers(left).items():
        change = pair.change_ns(places)
        if abs(change) > _NOTICED * pair.a.steps.median_ns:
            rank = _alone(pair, places, change)
            if rank != NONE:
                found[rank][layer] = places
    for rank, layers in found.items():
        changes = {layer: pair.change_ns(places) for layer, places in layers.items()}
        first, *others = by_size(changes)
        if abs(changes[first]) > _ONE_LAYER * sum(map(abs, changes.values())):
            yield Claim(CauseKind.LAYER_ON_RANK, layers[first], rank, (first,))
        else:
            others = [first, *others]
        rest = tuple(p for layer in others for p in layers[layer])
        yield Claim(CauseKind.RANK, rest, rank, tuple(others))


def another_optimizer(pair: RunPair, left: Places) -> Iterator[Claim]:
    """Work of the update, where other operators make it."""
    mine = tuple(p for p in left if p.work in WORKS and p.phase is Phase.UPDATE)
    gone, come = _exchanged(pair, mine)
    if pair.same_model and (gone or come):
        yield Claim(CauseKind.OPTIMIZER, mine, gone=gone, come=come)


def operators_replaced(pair: RunPair, left: Places) -> Iterator[Claim]:
    """Layers whose change lies mainly at operators that only one of the runs has."""
    if not pair.same_model:
        return
    places: list[WorkPlace] = []
    layers: dict[str, float] = {}
    for layer, mine in _layers(left).items():
        only = [p for p in mine if (p in pair.a.spent.row) != (p in pair.b.spent.row)]
        shares = [
            _share(part, whole) for part, whole in zip(pair.path_ns(only), pair.path_ns(mine))
        ]
        if max(shares) > _MAINLY:
            places += mine
            layers[layer] = pair.change_ns(mine)
    if places:
        gone, come = _exchanged(pair, tuple(places))
        yield Claim(CauseKind.REPLACED, tuple(places), NONE, by_size(layers), gone, come)


def one_layer(pair: RunPair, left: Places) -> Iterator[Claim]:
    """A layer that holds most of what changed in all work."""
    layers = {name: places for name, places in _layers(left).items() if name}
    whole = pair.change_ns(p for places in layers.values() for p in places)
    for name, places in layers.items():
        change = pair.change_ns(places)
        if len(layers) > 2 and change * whole > 0 and abs(change) > _ONE_LAYER * abs(whole):
            yield Claim(CauseKind.LAYER, places, layers=(name,))


def all_work(pair: RunPair, left: Places) -> Iterator[Claim]:
    mine = tuple(p for p in left if p.work in (WorkClass.COMPUTE, WorkClass.COPY))
    layers = {name: pair.change_ns(places) for name, places in _layers(mine).items() if name}
    yield Claim(CauseKind.WORK, mine, layers=by_size(layers)[:3])


def host_calls(pair: RunPair, left: Places) -> Iterator[Claim]:
    yield Claim(CauseKind.HOST, tuple(p for p in left if p.work is WorkClass.HOST))


def cores(pair: RunPair, left: Places) -> Iterator[Claim]:
    """Waiting of the training threads for a core. Where they wait much longer than before, so do
    the threads that carry the same messages: what these take longer is laid to the cores too,
    unless it is far more than the others wait."""
    mine = tuple(p for p in left if p.work is WorkClass.CORE and not p.communicates)
    carry = tuple(p for p in left if p.communicates)
    change, crowded = pair.change_ns(mine), _CROWDED * pair.a.steps.median_ns
    wait_too = pair.change_ns(carry) < _AS_LONG * change and _same_messages(pair)
    if change > max(crowded, pair.noise_ns(mine)) and wait_too:
        mine += carry
    yield Claim(CauseKind.CORE, mine)


def messages(pair: RunPair, left: Places) -> Iterator[Claim]:
    """Communication, by the trait of it that differs."""
    mine = tuple(p for p in left if p.communicates)
    change = pair.change_ns(mine) + pair.displaced_ns(p for p in left if p.work in WORKS)
    a, b = pair.a.traits, pair.b.traits
    moved = pair.transfer_ns
    if a.workers != b.workers:
        yield Claim(CauseKind.WORKERS, mine, before=a.workers, after=b.workers)
    elif _differs(a.sent_bytes, b.sent_bytes):
        yield Claim(CauseKind.VOLUME, mine, before=a.sent_bytes, after=b.sent_bytes)
    elif _differs(a.messages, b.messages):
        yield Claim(CauseKind.BUCKETS, mine, before=a.messages, after=b.messages)
    elif abs(moved[1] - moved[0]) < _ALONE * abs(change):
        yield Claim(CauseKind.EXPOSED, mine, before=moved[0], after=moved[1])
    else:
        rates = [t.sent_bytes / (ns / 1e9) if ns else 0.0 for t, ns in zip((a, b), moved)]
        yield Claim(CauseKind.LINK, mine, before=rates[0], after=rates[1])


def waiting(pair: RunPair, left: Places) -> Iterator[Claim]:
    yield Claim(CauseKind.WAITING, tuple(p for p in left if p.work is WorkClass.WAIT))


RULES: Final[tuple[Rule, ...]] = (
    another_model,
    input_takes_longer,
    cores,
    messages,
    another_batch,
    one_rank,
    another_optimizer,
    operators_replaced,
    one_layer,
    all_work,
    host_calls,
    waiting,
)


def _layers(left: Places) -> dict[str, Places]:
    """Forward and backward work by layer."""
    found: dict[str, list[WorkPlace]] = defaultdict(list)
    for place in left:
        if place.work in WORKS and place.phase in LEARNS:
            found[place.layer].append(place)
    return {layer: tuple(places) for layer, places in found.items()}


def _alone(pair: RunPair, places: Places, change: float) -> int:
    """The rank that alone has most of the change; NONE where others share it."""
    by_rank = pair.by_rank_ns(places)
    if len(by_rank) < 2:
        return NONE
    by_rank = by_rank * np.sign(change)
    top = int(np.argmax(by_rank))
    others = float(np.median(np.delete(by_rank, top)))
    alone = by_rank[top] > 0 and by_rank[top] - others > _ALONE * by_rank[top]
    enough = by_rank[top] > _ALONE * abs(change)
    return pair.a.spent.ranks[top] if alone and enough else NONE


def _exchanged(pair: RunPair, places: Places) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Operators at these places that only the first run has, and that only the second has; those
    that take most time first."""
    ours, theirs = (
        {(p.phase, p.layer, p.operator) for p in side.spent.places if p.work is WorkClass.COMPUTE}
        for side in (pair.a, pair.b)
    )
    gone: dict[str, float] = defaultdict(float)
    come: dict[str, float] = defaultdict(float)
    for place in places:
        key = (place.phase, place.layer, place.operator)
        if place.work is WorkClass.COMPUTE and (key in ours) != (key in theirs):
            side = gone if key in ours else come
            side[place.operator] += sum(pair.path_ns([place]))
    return by_size(gone), by_size(come)


def _same_messages(pair: RunPair) -> bool:
    a, b = pair.a.traits, pair.b.traits
    return not (_differs(a.sent_bytes, b.sent_bytes) or _differs(a.messages, b.messages))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _differs(before: float, after: float) -> bool:
    low, high = sorted((before, after))
    return low > 0 and high / low > _DIFFERS
