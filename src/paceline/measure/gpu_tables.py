"""Measured kernels of one GPU as a folder of tables, with its data sheet beside them."""

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from paceline.cluster.recognised import recognised
from paceline.graph.facts import RecordedGpu
from paceline.measure.errors import MeasureError
from paceline.measure.gpu_shapes import TYPE, Shape


@dataclass(frozen=True)
class Timed:
    """One measured shape."""

    shape: Shape
    ms: float


def write_tables(folder: Path, gpu: RecordedGpu, timed: Sequence[Timed]) -> str:
    """One file per table, and devices.yaml; returns the name of the device in them. Tables that an
    earlier measurement left are replaced."""
    name, sheet = _sheet(gpu, timed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "devices.yaml").write_text(yaml.safe_dump({name: sheet}))
    tables: dict[str, list[Timed]] = defaultdict(list)
    for one in timed:
        tables[one.shape.table].append(one)
    for table, rows in tables.items():
        with (folder / f"{table}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, ["device", *rows[0].shape.cells, "ms"])
            writer.writeheader()
            writer.writerows({"device": name, **row.shape.cells, "ms": row.ms} for row in rows)
    return name


def _sheet(gpu: RecordedGpu, timed: Sequence[Timed]) -> tuple[str, Mapping[str, Any]]:
    """A preset, or what was reached here: no data sheet of it is known."""
    if (known := recognised(gpu)) is not None:
        return known.name, {"preset": known.name}
    flops = max((_flops(one.shape) / one.ms * 1e3 for one in timed), default=0.0)
    memory = max((_moved_bytes(one.shape) / one.ms * 1e3 for one in timed), default=0.0)
    if not flops or not memory:
        raise MeasureError(
            f"no preset is a {gpu.name}, and neither its products nor its memory was measured; "
            "measure again with all tables"
        )
    rates = {"flops": {TYPE: f"{flops / 1e12:.4g}TFLOPS"}, "memory_rate": f"{memory / 1e9:.4g}GB/s"}
    size = {"units": gpu.units, "memory": f"{gpu.memory_bytes / 2**30:.4g}GiB"}
    return gpu.name, {"kind": "gpu", **rates, **size, "source": "paceline measure --gpu"}


def _flops(shape: Shape) -> float:
    """Of products; 0 of all else."""
    if shape.table != "gemm":
        return 0.0
    m, n, k = (float(shape.cells[name]) for name in ("m", "n", "k"))
    return 2 * m * n * k


def _moved_bytes(shape: Shape) -> float:
    """Of sums and copies, where caches hold no more than a part; 0 of all else."""
    tensors = _TENSORS.get(str(shape.cells.get("op")), 0)
    count = float(shape.cells["b"]) * float(shape.cells["k"]) if tensors else 0.0
    return tensors * 2 * count if count >= _BEYOND_CACHES else 0.0


_BEYOND_CACHES: Final = 1 << 26
_TENSORS: Final[Mapping[str, int]] = {"add": 3, "copy": 2}
"""Read and written, by operator."""
