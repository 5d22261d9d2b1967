"""Recorded times of a decoder's parts, and how they are carried to other shapes and devices.

A recording always wins: a part that does what was recorded takes what was recorded. Any other
shape, type or device takes as much longer as a forecast of it takes longer than a forecast of what
was recorded.
"""

from dataclasses import dataclass

from paceline.cluster import Device
from paceline.cost.decoder.kernels import Kernels
from paceline.cost.decoder.processors import ProcessorKernels
from paceline.cost.forecast import Constants, sheet_of
from paceline.cost.passes import PassTimes
from paceline.graph.kinds import DeviceKind
from paceline.imagine.decoder import DecoderJob, Operator, Operators

UPDATE_BYTES = 34.0
"""Per owned parameter: gradient and its norm (8), float32 copy and moments in and out (24), the
16-bit weight (2)."""
_UPDATE_SHARE = 0.7  # of the memory's rate


@dataclass(frozen=True)
class Timed:
    """What was recorded. `job` is what one rank did: all of a dense model, a micro-batch at once.
    `first` is what runs before the layers, `last` what runs behind them, `update` all weights'."""

    job: DecoderJob
    device: Device
    layer: PassTimes
    first: PassTimes
    last: PassTimes
    update_ns: float
    crowded: bool = False  # there were more ranks than cores when it was recorded


@dataclass(frozen=True)
class Pace:
    """By how much kernels take longer than forecast."""

    forward: float
    backward: float


@dataclass(frozen=True)
class Paces:
    layer: Pace
    first: Pace
    last: Pace
    update: float


def even(factor: float) -> Paces:
    """All parts alike; the update runs at memory's speed on any framework."""
    pace = Pace(factor, factor)
    return Paces(pace, pace, pace, 1.0)


def paces_of(timed: Timed, constants: Constants | None = None) -> Paces:
    """Recorded over forecast, part by part."""
    kernels, made = kernels_on(timed.device, constants), Operators(timed.job)
    there, back = made.forward(routed=False), made.backward(routed=False)
    held = [share.params for one in timed.job.contents for share in timed.job.shares(one)]
    return Paces(
        layer=_pace(kernels, timed.layer, there, back),
        first=_pace(kernels, timed.first, made.embedding(), made.embedding_back()),
        last=_pace(kernels, timed.last, made.head(), made.head_back()),
        update=timed.update_ns / update_ns(timed.device, sum(held)),
    )


def kernels_on(device: Device, constants: Constants | None) -> Kernels | ProcessorKernels:
    if device.kind is DeviceKind.CPU:
        return ProcessorKernels(device)
    return Kernels(sheet_of(device), constants)


def update_ns(device: Device, params: float) -> float:
    """Of so many weights that a rank owns."""
    return params * UPDATE_BYTES / (device.memory_bytes_per_s * _UPDATE_SHARE) * 1e9


def _pace(
    kernels: Kernels | ProcessorKernels,
    took: PassTimes,
    there: list[Operator],
    back: list[Operator],
) -> Pace:
    kernels.learn([*there, *back])
    forward, backward = (sum(map(kernels.ns, listed)) for listed in (there, back))
    return Pace(took.forward_ns / forward, took.backward_ns / backward)
