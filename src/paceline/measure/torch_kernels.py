"""Times kernels on a GPU: each shape's operator alone, by what torch's profiler sees there."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.nn import functional

from paceline.graph.facts import RecordedGpu
from paceline.measure.errors import MeasureError
from paceline.measure.gpu_shapes import Cells, Shape
from paceline.measure.gpu_tables import Timed
from paceline.measure.local import best_ns

Run = Callable[[], object]
Clock = Callable[[Run], float]
"""Milliseconds of one run."""

_WARM: Final = 5
_RUNS: Final = 20
_HEAD: Final = 64  # features of a head of attention


@dataclass(frozen=True)
class Bench:
    """Where operators run, and how they are timed."""

    device: torch.device
    clock: Clock


def gpu_bench() -> Bench:
    """The GPU that torch sees first."""
    if not torch.cuda.is_available():
        raise MeasureError(
            "torch sees no GPU here, so no kernels can be measured. On a machine that has one this "
            "writes tables; `paceline fit TABLES --refine -o FILE` takes them anywhere"
        )
    return Bench(torch.device("cuda"), _on_device_ms)


def cpu_bench() -> Bench:
    """This processor, by the wall clock: what a GPU is measured with runs here too."""
    return Bench(torch.device("cpu"), lambda run: best_ns(run, 3) / 1e6)


def gpu_seen() -> RecordedGpu:
    told = torch.cuda.get_device_properties(0)
    return RecordedGpu(told.name, told.total_memory, told.multi_processor_count)


def timed(bench: Bench, shapes: Iterable[Shape]) -> Iterator[Timed]:
    """Each shape in turn; what does not fit the device's memory is left out."""
    for shape in shapes:
        try:
            with torch.no_grad():
                took = bench.clock(_run(shape, bench.device))
        except torch.OutOfMemoryError:
            continue
        yield Timed(shape, took)


def _on_device_ms(run: Run) -> float:
    """The mean of kernels that ran for it, its launches left out."""
    for _ in range(_WARM):
        run()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(_RUNS):
            run()
        torch.cuda.synchronize()
    took = seen_us(profile, torch.autograd.DeviceType.CUDA)
    if took <= 0:
        raise MeasureError(
            "torch's profiler saw no kernel on the GPU, so none can be timed; look whether it may "
            "read the GPU's counters (CUPTI, ROCTracer)"
        )
    return took / _RUNS / 1e3


def seen_us(profile: Any, on: Any) -> float:
    """What the profiler saw on that kind of device. torch makes a new value of its type for each
    event, so they are compared and not identified."""
    seen = (event for event in profile.events() or () if event.device_type == on)
    took: float = sum(event.time_range.elapsed_us() for event in seen)
    return took


def _run(shape: Shape, device: torch.device) -> Run:
    dtype = getattr(torch, str(shape.cells["dtype"]))

    def drawn(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, device=device, dtype=dtype)

    return _OPERATORS[str(shape.cells.get("op", shape.table))](shape.cells, drawn)


_Draw = Callable[..., torch.Tensor]


def _sizes(cells: Cells, *names: str) -> list[int]:
    return [int(cells[name]) for name in names]


def _gemm(cells: Cells, drawn: _Draw) -> Run:
    m, n, k = _sizes(cells, "m", "n", "k")
    data, weight = drawn(m, k), drawn(n, k)
    return lambda: functional.linear(data, weight)


def _bmm(cells: Cells, drawn: _Draw) -> Run:
    b, m, inner, wide = _sizes(cells, "b", "m", "n", "k")
    left, right = drawn(b, m, inner), drawn(b, inner, wide)
    return lambda: torch.bmm(left, right)


def _attention(cells: Cells, drawn: _Draw) -> Run:
    b, s, heads, wide = _sizes(cells, "b", "s", "heads", "head_dim")
    query, key, value = (drawn(b, heads, s, wide) for _ in range(3))
    return lambda: functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def _add(cells: Cells, drawn: _Draw) -> Run:
    one, other = (drawn(*_sizes(cells, "b", "k")) for _ in range(2))
    out = torch.empty_like(one)
    return lambda: torch.add(one, other, out=out)


def _copy(cells: Cells, drawn: _Draw) -> Run:
    data = drawn(*_sizes(cells, "b", "k"))
    out = torch.empty_like(data)
    return lambda: out.copy_(data)


def _relaid(cells: Cells, drawn: _Draw) -> Run:
    """Heads of attention before positions, as they stand after them."""
    b, k = _sizes(cells, "b", "k")
    heads = drawn(b, k // _HEAD, _HEAD).transpose(0, 1)
    out = torch.empty_like(heads, memory_format=torch.contiguous_format)
    return lambda: out.copy_(heads)


def _on_rows(operator: Callable[[torch.Tensor], object]) -> Callable[[Cells, _Draw], Run]:
    def made(cells: Cells, drawn: _Draw) -> Run:
        data = drawn(*_sizes(cells, "b", "k"))
        return lambda: operator(data)

    return made


def _normed(data: torch.Tensor) -> Any:
    return functional.layer_norm(data, data.shape[-1:])


def _convolved(cells: Cells, drawn: _Draw) -> Run:
    b, channels, out, kernel, side = _sizes(
        cells, "b", "in_channels", "out_channels", "kernel_size", "input_size"
    )
    stride, padding = _sizes(cells, "stride", "padding")
    images, weight = drawn(b, channels, side, side), drawn(out, channels, kernel, kernel)
    return lambda: functional.conv2d(images, weight, stride=stride, padding=padding)


_OPERATORS: Final[Mapping[str, Callable[[Cells, _Draw], Run]]] = {
    "gemm": _gemm,
    "bmm": _bmm,
    "attention": _attention,
    "add": _add,
    "copy": _copy,
    "relaid": _relaid,
    "gelu": _on_rows(functional.gelu),
    "softmax": _on_rows(lambda data: functional.softmax(data, -1)),
    "ln": _on_rows(_normed),
    "conv": _convolved,
}
