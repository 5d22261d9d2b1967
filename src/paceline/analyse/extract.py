"""One operator's call as a script of its own: the same shapes, strides and types, nothing else.

Values are not in a trace: floating tensors are drawn, indices lie below every table's size. Wrong
where an operator's time depends on its values (a sparse gradient, an index that jumps).
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final

from paceline.analyse.shapes import Shaped
from paceline.errors import TraceError
from paceline.trace.readers.called import Called

TYPES: Final = {
    "float": "torch.float32",
    "double": "torch.float64",
    "c10::Half": "torch.float16",
    "c10::BFloat16": "torch.bfloat16",
    "long int": "torch.int64",
    "long": "torch.int64",
    "int": "torch.int32",
    "short": "torch.int16",
    "signed char": "torch.int8",
    "unsigned char": "torch.uint8",
    "bool": "torch.bool",
    "c10::Float8_e4m3fn": "torch.float8_e4m3fn",
    "c10::Float8_e5m2": "torch.float8_e5m2",
    "c10::complex<float>": "torch.complex64",
}
"""How the profiler spells an element type, and how torch does."""
_LISTS: Final = ("TensorList", "GenericList")

_SCRIPT: Final = '''"""{name}, as called {count} times in {run}: {took:.1f} us each on the host.

Runs with torch alone. Shapes, strides and types are those of the call; values are drawn.
"""

import time

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LIMIT = {limit}  # indices stay below it


def tensor(shape, strides, dtype):
    room = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    if 0 in shape:
        room = 0
    if dtype.is_floating_point or dtype.is_complex:
        held = torch.randn(room, device=DEVICE).to(dtype)
    else:
        held = (torch.arange(room, device=DEVICE) % LIMIT).to(dtype)
    return held.as_strided(shape, strides)


def arguments():
    return [
{arguments}
    ]


def call(given):
    """The first overload that takes these arguments."""
    packet = torch.ops.{space}.{operator}
    wrong = []
    for name in packet.overloads():
        overload = getattr(packet, name)
        known = overload._schema.arguments
        if len(known) < len(given):
            continue
        pairs = list(zip(known, given))
        plain = [value for argument, value in pairs if not argument.kwarg_only]
        named = {{a.name: value for a, value in pairs if a.kwarg_only and value is not None}}
        try:
            return overload(*plain, **named)
        except (RuntimeError, TypeError) as error:
            wrong.append(f"{{name}}: {{error}}")
    raise SystemExit("no overload takes these arguments:\\n" + "\\n".join(wrong))


def main():
    torch.manual_seed(0){threads}
    given = arguments()
    for _ in range(3):
        with torch.no_grad():
            call(given)
    times = []
    for _ in range(20):
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.no_grad():
            call(given)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    print(f"{name}: {{1e6 * sorted(times)[len(times) // 2]:.1f}} us")


if __name__ == "__main__":
    main()
'''


def script_of(shaped: Shaped, run: str, threads: int = 0) -> str:
    """The script for one call, with as many threads as the job had; 0 where that is not known."""
    call = shaped.call
    space, _, operator = call.name.partition("::")
    lines = [f"        {_argument(call, place)}," for place in range(len(call.dims))]
    return _SCRIPT.format(
        name=call.name,
        count=shaped.count,
        run=run,
        took=shaped.total_us / shaped.count,
        limit=_limit(call),
        arguments="\n".join(lines),
        space=space,
        threads=f"\n    torch.set_num_threads({threads})  # as in the run" if threads else "",
        operator=operator,
    )


def chosen(found: Sequence[Shaped], operator: str) -> Shaped:
    """The call of that operator which takes most time in all."""
    mine = [each for each in found if each.call.name == operator]
    if not found:
        raise TraceError(
            "the traces tell no operator's shapes. Record with `paceline record`, or profile with "
            "record_shapes=True and import again"
        )
    if not mine:
        names = sorted({each.call.name for each in found})
        near = get_close_matches(operator, names, 5, 0.3) or names[:5]
        raise TraceError(
            f"no call of {operator!r} with shapes is in the traces; some that are: "
            f"{', '.join(near)}"
        )
    if "::" not in operator:
        raise TraceError(
            f"{operator} is a node of autograd, not an operator that can be called; the operators "
            "that it calls can, such as aten::mm"
        )
    return mine[0]


def _argument(call: Called, place: int) -> str:
    kind = call.types[place] if place < len(call.types) else ""
    dims, value = call.dims[place], _value(call, place)
    strides = call.strides[place] if place < len(call.strides) else None
    if kind in TYPES:
        return _tensor(dims, strides, kind)
    if kind in _LISTS and dims:
        inner = [_tensor(d, s, "float") for d, s in zip(dims, strides or [None] * len(dims))]
        return f"[{', '.join(inner)}]"
    return value


def _tensor(dims: Sequence[int], strides: Sequence[int] | None, kind: str) -> str:
    if not strides or len(strides) != len(dims):
        strides = _dense(dims)
    return f"tensor({tuple(dims)}, {tuple(strides)}, {TYPES[kind]})"


def _dense(dims: Sequence[int]) -> list[int]:
    found, step = [], 1
    for size in reversed(dims):
        found.append(step)
        step *= max(size, 1)
    return found[::-1]


def _value(call: Called, place: int) -> str:
    """A number, a list or a truth value as Python writes it; None for all else."""
    text = call.values[place] if place < len(call.values) else ""
    words = {"True": "True", "False": "False", "inf": 'float("inf")', "-inf": '-float("inf")'}
    if text in words:
        return words[text]
    numbers = text.strip("[]").replace(" ", "")
    parts = [part for part in numbers.split(",") if part]
    if not all(_is_plain(part) for part in parts) or (not parts and text != "[]"):
        return "None"
    return f"[{', '.join(parts)}]" if text.startswith("[") else numbers


def _is_plain(text: str) -> bool:
    """A number or a truth value."""
    if text in ("True", "False"):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True


def _limit(call: Called) -> int:
    """Below the first dimension of every floating tensor: a table's rows, a number of classes."""
    floats = [d for d, t in zip(call.dims, call.types) if t in TYPES and _floating(t) and d]
    sizes: list[Any] = [size for dims in floats for size in dims]
    return max(1, min(sizes, default=1))


def _floating(kind: str) -> bool:
    return kind in ("float", "double") or kind.startswith("c10::")
