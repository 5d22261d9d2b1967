"""Tables of measured operators, as CSV, and the data sheets beside them.

A folder holds any of `matrix`, `vector`, `convolution`, `kernels`, `gemm`, `attention`, `moe` and
`nccl` as `.csv` or `.csv.gz`, with `devices.json` or `devices.yaml`. One row is one measured call;
the columns are those of the readers below, times in ms.
"""

import csv
import gzip
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from paceline.cost.errors import CostError
from paceline.cost.forecast.attention import ATTENTION
from paceline.cost.forecast.attention import LIBRARIES as FLASH
from paceline.cost.forecast.convolution import CONVOLUTION
from paceline.cost.forecast.domain import DOMAIN
from paceline.cost.forecast.elements import ELEMENTS, OPERATORS
from paceline.cost.forecast.experts import EXPERTS
from paceline.cost.forecast.experts import LIBRARIES as ROUTED
from paceline.cost.forecast.fitting import Sample
from paceline.cost.forecast.method import ForecastQuestion, Method
from paceline.cost.forecast.product import PRODUCT
from paceline.cost.forecast.rows import ROWS
from paceline.cost.forecast.sheet import Sheet
from paceline.cost.forecast.sheets import sheets_of
from paceline.cost.forecast.unreadable import BROKEN, spelled
from paceline.graph.kinds import DType
from paceline.graph.work import element_bytes

Row = Mapping[str, str]
Cells = tuple[str, Method, DType, tuple[float, ...]]  # task, method, type, dimensions

TABLES: Final = ("matrix", "vector", "convolution", "kernels", "gemm", "attention", "moe", "nccl")
_TWO: Final = frozenset({"add", "mul", "div", "pow"})
_TYPES: Final = {
    "float32": DType.FLOAT32,
    "bfloat16": DType.BFLOAT16,
    "fp8": DType.FLOAT8,
    "fp8_block": DType.FLOAT8,
    "nvfp4": DType.FLOAT4,
}
_CALLS: Final = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")


def samples(*folders: Path) -> dict[str, list[Sample]]:
    """Measurements of every table in the folders, by key, one sample per device."""
    found: dict[str, list[Sample]] = defaultdict(list)
    for folder in folders:
        for key, taken in _in_folder(folder).items():
            known = {one.device for one in found[key]}
            if again := [one.device for one in taken if one.device in known]:
                raise CostError(
                    f"{folder} has rows of {key} on {again[0]}, as a folder before it has; put "
                    "the rows of one device in one folder, or leave a folder away"
                )
            found[key] += taken
    return dict(found)


def _in_folder(folder: Path) -> dict[str, list[Sample]]:
    sheets = sheets_of(folder)
    rows: dict[tuple[str, str], list[tuple[float, ...]]] = defaultdict(list)
    about: dict[str, tuple[Method, DType]] = {}
    for path in _paths(folder):
        for name, (task, method, dtype, cells) in _measured(path, sheets):
            key = f"{task}.{sheets[name].vendor.value}"
            about[key] = method, dtype
            rows[key, name].append(cells)
    if not rows:
        raise CostError(f"the tables in {folder} have no rows")
    found: dict[str, list[Sample]] = defaultdict(list)
    for (key, name), cells_of in sorted(rows.items()):
        columns = np.array(cells_of, np.float32).T
        method, dtype = about[key]
        question = ForecastQuestion(dict(zip(method.columns, columns)), dtype, sheets[name])
        found[key].append(Sample(method, question, columns[-1] * np.float32(1e-3)))
    return dict(found)


def _paths(folder: Path) -> list[Path]:
    files = (folder / f"{name}{end}" for name in TABLES for end in (".csv", ".csv.gz"))
    if paths := [path for path in files if path.exists()]:
        return paths
    raise CostError(f"{folder} has no table; known are {', '.join(TABLES)} (.csv, .csv.gz)")


def _measured(path: Path, sheets: Mapping[str, Sheet]) -> Iterator[tuple[str, Cells]]:
    """Each row's device, and what was measured: dimensions, and last the milliseconds."""
    line = 1
    try:
        for line, row in enumerate(_rows(path), 2):
            if row["device"] not in sheets:
                raise CostError(
                    f"{path}, line {line} names device {row['device']!r}, of which devices.json or "
                    f"devices.yaml has no sheet; it has {', '.join(sheets)}"
                )
            task, method, dtype, cells = _read(row)
            yield row["device"], (task, method, dtype, (*cells, _time_ms(row)))
    except BROKEN as error:
        raise CostError(f"{path}, line {line} cannot be read: {spelled(error)}") from error


def _rows(path: Path) -> Iterator[Row]:
    table = path.name.split(".")[0]
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for row in csv.DictReader(file):
            row["op"] = row.get("op") or table
            row["table"] = table
            yield row


def _time_ms(row: Row) -> float:
    time = float(row["ms"])
    if not 0 < time < np.inf:
        raise ValueError(f"ms is {row['ms']}; give a time above zero")
    return time


def _read(row: Row) -> Cells:
    if row["table"] == "nccl":
        return _nccl(row)
    if row["op"] not in _READERS:
        raise CostError(f"operator {row['op']!r} is not known; known: {', '.join(_READERS)}")
    return _READERS[row["op"]](row)


def _numbers(row: Row, *names: str) -> list[float]:
    found = [float(row[name]) for name in names]
    if not all(0 <= each < np.inf for each in found):
        raise ValueError(f"{', '.join(names)} are {found}; give sizes of 0 or more")
    return found


def _typed(row: Row) -> tuple[str, DType]:
    """These tables may do without a type: NeuSight's are of float32."""
    name = row.get("dtype") or "float32"
    return name, _TYPES[name]


def _bmm(row: Row) -> Cells:
    b, m, inner, wide = _numbers(row, "b", "m", "n", "k")
    name, dtype = _typed(row)
    return f"bmm.{name}", PRODUCT, dtype, (b, m, wide, inner)


def _linear(row: Row) -> Cells:
    b, m, inner, wide = _numbers(row, "b", "m", "n", "k")
    name, dtype = _typed(row)
    return f"linear.{name}", PRODUCT, dtype, (1, b * m, wide, inner)


def _convolution(row: Row) -> Cells:
    b, cin, cout, kernel, size, stride, padding = _numbers(
        row, "b", "in_channels", "out_channels", "kernel_size", "input_size", "stride", "padding"
    )
    out = (size + 2 * padding - kernel) // stride + 1
    cells = (b, cin, cout, size**2, out**2, kernel**2, stride**2)
    name, dtype = _typed(row)
    return f"convolution.{name}", CONVOLUTION, dtype, cells


def _vector(row: Row) -> Cells:
    b, k = _numbers(row, "b", "k")
    inputs = 2 if row["op"] in _TWO else 1
    name, dtype = _typed(row)
    size = element_bytes(dtype) * b * k * (inputs + 1)
    return f"pointwise.{name}", ELEMENTS, dtype, (b * k, inputs, size, OPERATORS.index(row["op"]))


def _copied(task: str) -> Callable[[Row], Cells]:
    def read(row: Row) -> Cells:
        b, k = _numbers(row, "b", "k")
        name, dtype = _typed(row)
        return f"{task}.{name}", ELEMENTS, dtype, (b * k, 1, 2 * element_bytes(dtype) * b * k, -1)

    return read


def _by_rows(task: str) -> Callable[[Row], Cells]:
    def read(row: Row) -> Cells:
        b, k = _numbers(row, "b", "k")
        name, dtype = _typed(row)
        return f"{task}.{name}", ROWS, dtype, (b, k, 2 * element_bytes(dtype) * b * k)

    return read


def _gemm(row: Row) -> Cells:
    m, n, k = _numbers(row, "m", "n", "k")
    return f"linear.{row['dtype']}", PRODUCT, _TYPES[row["dtype"]], (1, m, n, k)


def _attention(row: Row) -> Cells:
    cells = _numbers(row, "b", "s", "heads", "kv_heads", "head_dim")
    dtype = _TYPES[row["dtype"]]
    return f"attention.{row['dtype']}", ATTENTION, dtype, (*cells, 1, _at(FLASH, row["kernel"]))


def _experts(row: Row) -> Cells:
    cells = _numbers(row, "tokens", "hidden", "intermediate", "top_k", "experts", "tp", "ep")
    law, _, skew = row["routing"].rpartition("_")
    found = (*cells, float(skew) if law else 0.0, _at(ROUTED, row["kernel"]))
    return f"experts.{row['dtype']}", EXPERTS, _TYPES[row["dtype"]], found


def _nccl(row: Row) -> Cells:
    gpus, size = _numbers(row, "gpus", "bytes")
    version = float(row["nccl"].split(".")[1])
    element = 1 if row["dtype"] == "int8" else 2
    cells = (_at(_CALLS, row["op"]), gpus, size, version, element)
    return "domain.float16", DOMAIN, DType.FLOAT16, cells


def _at(known: tuple[str, ...], name: str) -> int:
    return known.index(name) if name in known else -1


_READERS: Final[Mapping[str, Callable[[Row], Cells]]] = {
    "bmm": _bmm,
    "linear": _linear,
    "conv": _convolution,
    **dict.fromkeys(OPERATORS, _vector),
    "copy": _copied("copy"),
    "relaid": _copied("relaid"),
    "softmax": _by_rows("softmax"),
    "ln": _by_rows("norm"),
    "gemm": _gemm,
    "attention": _attention,
    "moe": _experts,
}
