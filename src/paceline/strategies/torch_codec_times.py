"""Time every known codec on this machine: packing and unpacking, with default settings, one thread.

One thread, because `torchrun` gives each worker one. What is timed is what the communication hooks
do with a bucket: average, correct by what was left, compress, keep what is left; then restore, and
add the second worker's payload where payloads are gathered. A threshold's refresh is left out, and
so is what others on the machine take: it is the thread's processor time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields, replace
from itertools import pairwise
from time import thread_time_ns

import torch

from paceline.graph.buckets import Bucket
from paceline.measure import CodecTimes, OpTimes
from paceline.runtime.codecs import Codec, Compressor, Iterative, Momentum, Turn
from paceline.runtime.codecs.torch_memory import Vectors, memory_of
from paceline.strategies.coded import Coded
from paceline.strategies.named import kind_of, known
from paceline.strategies.sparse import BEFORE, Sparse
from paceline.strategies.strategy import Strategy, name_of

SIDES = (2**5, 2**8, 2**9, 2**10, 2**11, 2560)  # of the square matrix; the last: DDP's 25 MB
MEMBERS = 2
FACTOR = 0.9  # of the momentum, where workers accumulate it
STEP_BYTES = 64 * 2**20
"""What a step passes through memory beside the gradients, so that caches hold nothing of what the
codec remembered a step ago. The gradients themselves were just made."""
STRIDE = 7919  # by which the same gradients are moved in each step, so that they do not add up
FIRST = 10_000  # the step: behind every warm-up

Trial = Callable[[torch.Tensor, Turn], list[int]]
"""Packs and unpacks once; nanoseconds of each stage."""


def alone() -> None:
    """Nobody runs beside it, so none is waited for."""


def codec_times(repeats: int, together: Callable[[], object] = alone) -> tuple[CodecTimes, ...]:
    """All codecs whose settings have defaults. `together` is called before each run, and waits for
    whoever is to run beside it."""
    with one_thread():
        return tuple(_timed(change, repeats, together) for change in _with_defaults())


def _with_defaults() -> Iterator[Coded]:
    for name in known():
        kind: type[Strategy] = kind_of(name)
        if issubclass(kind, Coded) and all(f.default is not MISSING for f in fields(kind)):  # type: ignore[arg-type]
            yield kind()


def _timed(change: Coded, repeats: int, together: Callable[[], object]) -> CodecTimes:
    buckets = [Bucket(((side, side),)) for side in SIDES]
    packing = change.packing()
    times = [_stages(change, bucket, repeats, together) for bucket in buckets]
    *middle, _ = packing.calls(buckets[-1])
    touched = [
        (
            packing.pack_bytes(bucket),
            *(packing.repack_bytes(bucket, round_ + 1) for round_ in range(len(middle))),
            packing.unpack_bytes(bucket, MEMBERS),
        )
        for bucket in buckets
    ]
    kinds = ("pack", *("repack" for _ in middle), packing.unpacking)
    name = name_of(type(change))
    ops = [
        OpTimes(f"{kind} {name}", tuple(row[i] for row in touched), tuple(t[i] for t in times))
        for i, kind in enumerate(kinds)
    ]
    return CodecTimes(
        name=name,
        dtype=packing.dtype,
        gathers=packing.gathers,
        counts=tuple(bucket.count for bucket in buckets),
        payload_bytes=tuple(sum(packing.calls(bucket)) for bucket in buckets),
        ops=tuple(ops),
        members=MEMBERS,
        dense=packing.adds_up,
    )


def _stages(
    change: Coded, bucket: Bucket, repeats: int, together: Callable[[], object]
) -> list[float]:
    """Of each stage the lower quartile: what the machine does when little else disturbs it."""
    trial = _trial(_codec(change))
    drawn = torch.randn(bucket.count, generator=torch.Generator().manual_seed(0))
    turns = (Turn(0, FIRST + step, bucket.shapes) for step in range(repeats + 1))
    samples, step = [], torch.zeros(STEP_BYTES // 4)
    for turn in turns:
        step.add_(1)
        gradient = drawn.roll(turn.step * STRIDE)
        together()
        samples.append(trial(gradient, turn))
    del samples[0]  # it warms up
    return [float(sorted(times)[len(times) // 4]) for times in zip(*samples)]


def _codec(change: Coded) -> Codec:
    codec = change.codec()
    if isinstance(change, Sparse) and change.momentum == BEFORE:
        return replace(codec, momentum=change.corrected(Momentum(FACTOR)))
    return codec


def _trial(codec: Codec) -> Trial:
    how = codec.compressor
    return _in_rounds(codec, how) if isinstance(how, Iterative) else _at_once(codec, how)


def _at_once(codec: Codec, how: Compressor) -> Trial:
    memory = memory_of(codec, MEMBERS)
    others = MEMBERS - 1 if codec.gathers else 0

    def run(gradient: torch.Tensor, turn: Turn) -> list[int]:
        began = thread_time_ns()
        if codec.remembers:
            corrected = memory.corrected((1,), gradient.mul_(1 / MEMBERS))
            payload = how.compress(corrected, turn)
            memory.sent(corrected, payload, how, turn)
        else:
            payload = how.averaged(gradient, 1 / MEMBERS, turn)
        packed = thread_time_ns()
        how.restore(gradient, payload, turn)
        for _ in range(others):
            how.add(gradient, payload, turn)
        return [packed - began, thread_time_ns() - packed]

    return run


def _in_rounds(codec: Codec, how: Iterative) -> Trial:
    left = Vectors()

    def run(gradient: torch.Tensor, turn: Turn) -> list[int]:
        marks = [thread_time_ns()]
        values = left.of((1,), gradient).add_(gradient, alpha=1 / MEMBERS)
        payload: torch.Tensor | None = how.first(values, turn)
        while payload is not None:
            marks.append(thread_time_ns())
            payload = how.next(values, turn, len(marks) - 1)
        how.restore(gradient, turn)
        how.keep(values, gradient, MEMBERS, turn)
        marks.append(thread_time_ns())
        return [b - a for a, b in pairwise(marks)]

    return run


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
