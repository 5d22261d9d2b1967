"""Neighbouring element-wise operators and normalisations as torch.compile generates them.

Calls that follow one another without a product between them are put together, each reading what
the one before it made, compiled as one, and timed against the calls by themselves. The compiler
puts the channels of images last, for the library's convolutions as well.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import torch

from paceline.cost.operators import FUSIBLE, OPERATORS, OperatorClass
from paceline.graph.variants import Ratio, Variant
from paceline.measure.pairs import TimedPair, Work, clock_of, ratio_of, timed
from paceline.measure.recorded_calls import OperatorCall, RecordedCalls
from paceline.measure.torch_calls import Runnable, innermost, runnable

_MOST = 24  # runs of calls that are compiled: those with most to read, for each takes seconds
_LEAST_ELEMENTS = 4_096  # of a call that takes any time
Run = tuple[OperatorCall, ...]


def compiled_ratios(recorded: RecordedCalls) -> Iterator[Ratio]:
    """By operator: what all calls of it in a step take, as parts of the runs that they are in."""
    found: dict[str, list[TimedPair]] = {}
    clock = clock_of(recorded.threads)
    for run, count in _largest(_runs(recorded.calls)):
        made = [call for call in map(runnable, run) if call is not None]
        generated = _compiled(_chained([call.mapped(innermost) for call in made]))
        pair = timed(_chained(made), generated, clock, count)
        for operator in {call.operator for call in run}:
            found.setdefault(operator, []).append(pair)
    torch._dynamo.reset()
    for call, count in recorded.counted().items():
        plain = runnable(call) if OPERATORS[call.operator] is OperatorClass.CONVOLUTION else None
        if plain is not None:
            pair = timed(plain, plain.mapped(innermost), clock, count)
            found.setdefault(call.operator, []).append(pair)
    for operator, pairs in found.items():
        yield ratio_of(operator, Variant.COMPILED, pairs)


def _runs(calls: Sequence[OperatorCall]) -> Counter[Run]:
    """Fusible calls that follow one another, on tensors of one size."""
    big = [call for call in calls if OPERATORS[call.operator] not in FUSIBLE or _size(call)]

    def kind(call: OperatorCall) -> tuple[bool, bool, int]:
        fuses = OPERATORS[call.operator] in FUSIBLE
        return fuses, call.backward, _size(call) if fuses else 0

    groups = ((key, tuple(found)) for key, found in groupby(big, kind))
    return Counter(found for key, found in groups if key[0] and all(map(_told, found)))


def _size(call: OperatorCall) -> int:
    """Elements of its largest tensor; 0 of a small one."""
    most = max((torch.Size(dims).numel() for dims in call.dims if dims), default=0)
    return most if most >= _LEAST_ELEMENTS else 0


def _told(call: OperatorCall) -> bool:
    return runnable(call) is not None


def _largest(runs: Counter[Run]) -> list[tuple[Run, int]]:
    def weight(row: tuple[Run, int]) -> int:
        return row[1] * sum(map(_size, row[0]))

    return sorted(runs.items(), key=weight, reverse=True)[:_MOST]


def _chained(calls: Sequence[Runnable]) -> Work:
    """All calls in turn; each result of one size takes the place of the next call's input."""
    rows = [(call.operator, *call.parts()) for call in calls]

    def whole() -> Any:
        result = None
        for operator, given, named in rows:
            if isinstance(result, torch.Tensor) and result.shape == given[0].shape:
                given = (result, *given[1:])
            results = operator(*given, **named)
            result = results[0] if isinstance(results, tuple) else results
        return results

    return whole


def _compiled(whole: Work) -> Work:
    """Without the checks before each call: a whole model makes them once."""
    torch._dynamo.reset()
    unguarded = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
    made: Work = torch.compile(whole, dynamic=False, options=unguarded)
    return made
