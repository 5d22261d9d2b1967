"""Collectives in torch's flight recorder: group, sequence, sizes and the moment of issue."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import Any

import msgspec
import torch.distributed as dist

_BYTES = {
    "Double": 8, "Float": 4, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2,
    "Char": 1, "Byte": 1, "Bool": 1, "ComplexFloat": 8, "ComplexDouble": 16,
    "Float8_e4m3fn": 1, "Float8_e5m2": 1,
}  # fmt: skip
_DTYPES = {
    "Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16",
    "Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8",
    "Bool": "bool", "ComplexFloat": "complex64", "ComplexDouble": "complex128",
    "Float8_e4m3fn": "float8", "Float8_e5m2": "float8",
}  # fmt: skip
_GLOO_RUNS = {"reduce_scatter": "all_reduce"}  # gloo reduces everything and keeps its part


@dataclass(frozen=True)
class Flight:
    """One collective as torch noted it when it was issued."""

    group: str
    sequence: int
    op: str
    executed: str
    size_bytes: int
    output_bytes: int
    dtype: str
    created_ns: int
    thread: int  # the system's id of the issuing thread; 0 where it is not one of Python's


class _Entry(msgspec.Struct):
    process_group: list[str]
    collective_seq_id: int
    profiling_name: str
    time_created_ns: int
    is_p2p: bool = False
    thread_id: str = ""
    input_sizes: list[list[int]] = []
    input_dtypes: list[str] = []
    output_sizes: list[list[int]] = []
    output_dtypes: list[str] = []


class _Dump(msgspec.Struct):
    entries: list[_Entry] = []


def flights(during: Callable[[int], bool]) -> list[Flight]:
    """Collectives issued at such moments, oldest first, as far as the ring still holds them."""
    if not (dist.is_available() and dist.is_initialized()):
        return []
    found: list[Flight] = []
    native = {str(t.ident): t.native_id or 0 for t in threading.enumerate()}
    for dump in _dumps():
        read = msgspec.json.decode(dump, type=_Dump)
        found += [_flight(e, native.get(e.thread_id, 0)) for e in read.entries if not e.is_p2p]
    wanted = [flight for flight in found if during(flight.created_ns)]
    return sorted(wanted, key=lambda flight: flight.created_ns)


def _dumps() -> list[Any]:
    c10d = import_module("torch._C._distributed_c10d")
    names = ("_dump_fr_trace_json", "_dump_nccl_trace_json")
    return [getattr(c10d, name)() for name in names if hasattr(c10d, name)]


def _flight(entry: _Entry, thread: int) -> Flight:
    backend, _, called = entry.profiling_name.partition(":")
    op = canonical(called or backend)
    return Flight(
        group=entry.process_group[0],
        sequence=entry.collective_seq_id,
        op=op,
        executed=_GLOO_RUNS.get(op, op) if backend == "gloo" else op,
        size_bytes=_total(entry.input_sizes, entry.input_dtypes),
        output_bytes=_total(entry.output_sizes, entry.output_dtypes),
        dtype=_DTYPES.get(entry.input_dtypes[0], "") if entry.input_dtypes else "",
        created_ns=entry.time_created_ns,
        thread=thread,
    )


def canonical(name: str) -> str:
    """One spelling for each operation: `_allgather_base` and `all_gather` are `all_gather`."""
    bare = name.strip("_").lower().replace("_", "")
    for word, op in _SPELLINGS:
        if bare.startswith(word):
            return op
    return name


def _total(sizes: list[list[int]], dtypes: list[str]) -> int:
    return sum(prod(size) * _BYTES.get(dtype, 0) for size, dtype in zip(sizes, dtypes))


_SPELLINGS = (
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("reducescatter", "reduce_scatter"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("reduce", "reduce"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("barrier", "barrier"),
)
