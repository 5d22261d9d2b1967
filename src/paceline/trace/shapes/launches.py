"""How a kernel was put on its device, as its profiler tells it."""

from math import prod
from typing import Any, Final

import msgspec

from paceline.graph.work import Launch

IN_THREADS: Final = frozenset({"hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"})
"""Calls of HIP that count their grid in threads; all others count it in blocks."""

_GRAPHS: Final = ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch")
"""Calls that launch a whole graph of kernels, which were captured for operators of another time;
CUPTI may add a version."""


def is_graph_launch(call: str) -> bool:
    return call.startswith(_GRAPHS)


class _Form(msgspec.Struct):
    grid: list[Any] = []
    block: list[Any] = []
    registers: Any = msgspec.field(name="registers per thread", default=0)
    shared: Any = msgspec.field(name="shared memory", default=0)


_FORM: Final = msgspec.json.Decoder(_Form)


def launch_of(form: bytes, call: str = "") -> Launch:
    """`call`: the driver's function that launched it."""
    try:
        told = _FORM.decode(form)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Launch()
    blocks, threads = _product(told.grid), _product(told.block)
    if call in IN_THREADS and threads:
        blocks = -(-blocks // threads)
    return Launch(blocks, threads, _whole(told.registers), _whole(told.shared))


def _product(sizes: list[Any]) -> int:
    return prod(map(_whole, sizes)) if sizes else 0


def _whole(value: Any) -> int:
    """A number, also one given as text."""
    text = str(value)
    return int(text) if text.isdigit() and len(text) < 12 else 0
