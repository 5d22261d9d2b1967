"""Ratios of a job's operators: each call of a step timed in its recorded way and in a variant."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from paceline.graph.variants import Ratio, Variant
from paceline.measure.pairs import TimedPair, Work, clock_of, ratio_of, timed
from paceline.measure.recorded_calls import OperatorCall, RecordedCalls
from paceline.measure.torch_calls import innermost, is_image, runnable
from paceline.measure.torch_compiled import compiled_ratios
from paceline.measure.torch_halves import added, halved
from paceline.measure.torch_merged import merged
from paceline.measure.torch_norms import restructured
from paceline.measure.torch_optimizers import optimizer_ratios
from paceline.measure.torch_precision import Autocast

Changed = Iterator[tuple[OperatorCall, int, Work, Work]]
"""A call, how often a step makes it, and both ways of making it."""
Changes = Mapping[Variant, Callable[[RecordedCalls], Changed]]


def job_ratios(
    recorded: RecordedCalls, *, compiled: bool = False, more: Changes | None = None
) -> tuple[Ratio, ...]:
    """By operator and variant, over all calls of a step; of the optimizer too. `more` variants are
    measured beside those that this room knows. Compiling takes minutes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(recorded.threads)
    try:
        with torch.no_grad():
            generated = compiled_ratios(recorded) if compiled else ()
            return (
                *_operator_ratios(recorded, {**_CHANGES, **(more or {})}),
                *optimizer_ratios(recorded),
                *generated,
            )
    finally:
        torch.set_num_threads(threads)


def _operator_ratios(recorded: RecordedCalls, every: Changes) -> Iterator[Ratio]:
    clock = clock_of(recorded.threads)
    for variant, changes in every.items():
        found: dict[str, list[TimedPair]] = defaultdict(list)
        for call, count, plain, changed in changes(recorded):
            found[call.operator].append(timed(plain, changed, clock, count))
        for operator, pairs in found.items():
            yield ratio_of(operator, variant, pairs)


def _autocast(recorded: RecordedCalls) -> Changed:
    """Equal calls may differ in what is cast: they are told apart by it."""
    types, found = Autocast(), dict[Any, list[Any]]()
    for call in recorded.calls:
        plain = runnable(call)
        if plain is None:
            continue
        made = types.lowered(call, plain)
        dtypes = tuple(getattr(value, "dtype", None) for value in made.call.arguments)
        row = found.setdefault((call, dtypes, made.restored), [call, 0, plain, made])
        row[1] += 1
    yield from (tuple(row) for row in found.values())


def _channels_last(recorded: RecordedCalls) -> Changed:
    """Calls on images; none where the job has none."""
    for call, count in recorded.counted().items():
        plain = runnable(call)
        if plain is not None and any(is_image(value) for value in plain.arguments):
            yield call, count, plain, plain.mapped(innermost)


def _in_place(recorded: RecordedCalls) -> Changed:
    """ReLUs of the forward pass that write over what they read."""
    for call, count in recorded.counted().items():
        plain = runnable(call) if call.operator == "aten::clamp_min" else None
        if plain is not None and not call.backward:
            tensor, least = plain.arguments
            yield call, count, plain, partial(torch.clamp_min_, tensor.clone(), least)


_CHANGES: Changes = {
    Variant.ADDED: added,
    Variant.BF16: _autocast,
    Variant.CHANNELS_LAST: _channels_last,
    Variant.HALVED: halved,
    Variant.IN_PLACE: _in_place,
    Variant.MERGED: merged,
    Variant.RESTRUCTURED: restructured,
}
