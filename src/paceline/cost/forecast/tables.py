"""Tables of measured operators, as CSV, and the data sheets beside them.

A folder holds any of `matrix`, `vector`, `convolution`, `kernels`, `gemm`, `attention`, `moe` and
`nccl` as `.csv` or `.csv.gz`, with `devices.json` or `devices.yaml`. One row is one measured call;
the columns are those of the readers below, times in ms.
"""

import csv
import gzip
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from paceline.cluster.files import device
from paceline.cluster.presets import table as presets
from paceline.cost.errors import CostError
from paceline.cost.forecast.attention import ATTENTION
from paceline.cost.forecast.attention import LIBRARIES as FLASH
from paceline.cost.forecast.convolution import CONVOLUTION
from paceline.cost.forecast.domain import DOMAIN
from paceline.cost.forecast.elements import ELEMENTS, OPERATORS
from paceline.cost.forecast.experts import EXPERTS
from paceline.cost.forecast.experts import LIBRARIES as ROUTED
from paceline.cost.forecast.fitting import Sample
from paceline.cost.forecast.method import Method, Question
from paceline.cost.forecast.product import PRODUCT
from paceline.cost.forecast.rows import ROWS
from paceline.cost.forecast.sheet import Sheet, sheet_of
from paceline.graph.kinds import DType, Vendor

Row = Mapping[str, str]
Cells = tuple[str, Method, DType, tuple[float, ...]]  # task, method, type, dimensions

TABLES: Final = ("matrix", "vector", "convolution", "kernels", "gemm", "attention", "moe", "nccl")
_TWO: Final = frozenset({"add", "mul", "div", "pow"})
_TYPES: Final = {
    "bfloat16": DType.BFLOAT16,
    "fp8": DType.FLOAT8,
    "fp8_block": DType.FLOAT8,
    "nvfp4": DType.FLOAT4,
}
_CALLS: Final = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")


def samples(folder: Path) -> dict[str, list[Sample]]:
    """Measurements of every table in a folder, by key, one sample per device."""
    sheets = sheets_of(folder)
    rows: dict[tuple[str, str], list[tuple[float, ...]]] = defaultdict(list)
    about: dict[str, tuple[Method, DType]] = {}
    for row in _rows(folder):
        if row["device"] not in sheets:
            raise CostError(
                f"a row names device {row['device']!r}, of which devices.json or devices.yaml in "
                f"{folder} has no sheet; it has {', '.join(sheets)}"
            )
        task, method, dtype, cells = _read(row)
        key = f"{task}.{sheets[row['device']].vendor.value}"
        about[key] = method, dtype
        rows[key, row["device"]].append((*cells, float(row["ms"])))
    found: dict[str, list[Sample]] = defaultdict(list)
    for (key, name), cells_of in sorted(rows.items()):
        columns = np.array(cells_of, np.float32).T
        method, dtype = about[key]
        question = Question(dict(zip(method.columns, columns)), dtype, sheets[name])
        found[key].append(Sample(method, question, columns[-1] * np.float32(1e-3)))
    return dict(found)


def sheets_of(folder: Path) -> dict[str, Sheet]:
    """The data sheets beside the tables; what they leave out comes from presets of that name."""
    for name, read in (("devices.json", _from_json), ("devices.yaml", _from_yaml)):
        if (folder / name).exists():
            return {one: read(one, given) for one, given in _document(folder / name).items()}
    raise CostError(f"{folder} has neither devices.json nor devices.yaml; give the data sheets")


def _document(path: Path) -> Mapping[str, Any]:
    document: Mapping[str, Any] = yaml.safe_load(path.read_text())  # JSON is YAML too
    return document


def _from_yaml(name: str, given: Mapping[str, Any]) -> Sheet:
    known = presets("devices").get(_preset(name), {})
    extra = {field: known[field] for field in ("cache", "power", "process") if field in known}
    return sheet_of(device({**extra, **given, "name": name}))


def _preset(name: str) -> str:
    """The preset of a device whose name also says its form: `a100_sxm` is a100-80."""
    plain = name.removesuffix("_sxm").replace("_", "-")
    return {"a100": "a100-80"}.get(plain, plain)


def _from_json(name: str, given: Mapping[str, Any]) -> Sheet:
    rate = given.get("SingleFLOPs") or given["SingleFLOPsMM"]
    amd = "SingleFLOPsMM" in given
    known = presets("devices").get(_ALIASES.get(name, name), {})
    sheet = sheet_of(device({
        "name": name, "kind": "gpu", "memory_rate": f"{given['Mem_Bw']}GB/s",
        "units": given["Num_Sm"], "clock": f"{given['Freq'] / 1000}GHz",
        "flops": {"float32": f"{rate}GFLOPS"}, "cache": f"{given['L2Cache']}MiB",
        "power": known.get("power", 0), "process": known.get("process", 0),
        "link": known.get("link", 0), "memory": f"{given['Dev_Mem']}GiB",
        "vendor": (Vendor.AMD if amd else Vendor.NVIDIA).value,
    }))  # fmt: skip
    return replace(sheet, vector_flops=float(given.get("SingleFLOPsVEC", rate)) * 1e9)


_ALIASES: Final = {"a100-sxm-40": "a100-40", "h100-sxm": "h100", "mi250": "mi210"}


def _rows(folder: Path) -> Iterator[Row]:
    paths = [
        path
        for name in TABLES
        for path in (folder / f"{name}.csv", folder / f"{name}.csv.gz")
        if path.exists()
    ]
    if not paths:
        raise CostError(f"{folder} has no table; known are {', '.join(TABLES)} (.csv, .csv.gz)")
    for path in paths:
        table = path.name.split(".")[0]
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            for row in csv.DictReader(file):
                row["op"] = row.get("op") or table
                row["table"] = table
                yield row


def _read(row: Row) -> Cells:
    if row["table"] == "nccl":
        return _nccl(row)
    if row["op"] not in _READERS:
        raise CostError(f"operator {row['op']!r} is not known; known: {', '.join(_READERS)}")
    return _READERS[row["op"]](row)


def _numbers(row: Row, *names: str) -> list[float]:
    return [float(row[name]) for name in names]


def _bmm(row: Row) -> Cells:
    b, m, inner, wide = _numbers(row, "b", "m", "n", "k")
    return "bmm.float32", PRODUCT, DType.FLOAT32, (b, m, wide, inner)


def _linear(row: Row) -> Cells:
    b, m, inner, wide = _numbers(row, "b", "m", "n", "k")
    return "linear.float32", PRODUCT, DType.FLOAT32, (1, b * m, wide, inner)


def _convolution(row: Row) -> Cells:
    b, cin, cout, kernel, size, stride, padding = _numbers(
        row, "b", "in_channels", "out_channels", "kernel_size", "input_size", "stride", "padding"
    )
    out = (size + 2 * padding - kernel) // stride + 1
    cells = (b, cin, cout, size**2, out**2, kernel**2, stride**2)
    return "convolution.float32", CONVOLUTION, DType.FLOAT32, cells


def _vector(row: Row) -> Cells:
    b, k = _numbers(row, "b", "k")
    inputs = 2 if row["op"] in _TWO else 1
    cells = (b * k, inputs, 4 * b * k * (inputs + 1), OPERATORS.index(row["op"]))
    return "pointwise.float32", ELEMENTS, DType.FLOAT32, cells


def _by_rows(task: str) -> Callable[[Row], Cells]:
    def read(row: Row) -> Cells:
        b, k = _numbers(row, "b", "k")
        return f"{task}.float32", ROWS, DType.FLOAT32, (b, k, 8 * b * k)

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
    "softmax": _by_rows("softmax"),
    "ln": _by_rows("norm"),
    "gemm": _gemm,
    "attention": _attention,
    "moe": _experts,
}
