"""Kernels, collectives and whole steps forecast from data sheets, against what was measured.

Every device is left out in turn and forecast by what the others of its vendor taught
(`left_out_*`, `device_out_*`); a fifth of the shapes is held back by a hash of their dimensions
(`held_out_*`). The 69 steps are described by their models' configurations and forecast for a device
of which nothing was measured, beside what published methods made of the same rows.

`--test FOLDER` and `--tables FOLDER` judge the shipped constants, or those of `--constants FILE`,
on other rows with the same columns.
"""

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402
from benchmarks.accuracy.given_folders import (  # noqa: E402
    STEPS,
    ended_plainly,
    holds,
    model_of,
    require,
    steps_in,
)
from paceline.cost.forecast.efforts import effort_of  # noqa: E402
from paceline.cost.forecast.fitting import (  # noqa: E402
    Sample,
    error_of,
    fit,
    held_out,
    left_out,
    taught_without,
)
from paceline.cost.forecast.learned import Constants, load, shipped  # noqa: E402
from paceline.cost.forecast.sheet import Sheet  # noqa: E402
from paceline.cost.forecast.sheets import sheets_of  # noqa: E402
from paceline.cost.forecast.steps import step_forecast  # noqa: E402
from paceline.cost.forecast.tables import samples  # noqa: E402
from paceline.graph.kinds import DType  # noqa: E402
from paceline.imagine.language import Pass, split_of, step  # noqa: E402

SHARED = Path(os.environ.get("PACELINE_SHARED", ROOT.parent / "shared"))
CLASSES = {
    "bmm": "bmm", "linear": "linear", "convolution": "convolution", "pointwise": "pointwise",
    "softmax": "softmax", "norm": "norm",
}  # fmt: skip
KERNELS = ("kernels", "matrix", "vector", "convolution")  # tables of classes
TABLES = {"gemm": "linear", "attention": "attention", "moe": "experts", "nccl": "domain"}
TABLE_FILES = ("gemm", "attention", "moe", "nccl", "matrix", "kernels")
PUBLISHED = ("neusight", "roofline", "habitat", "li")
Samples = Mapping[str, list[Sample]]
Errors = dict[str, tuple[float, int]]  # by device: mean error, rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--test", type=Path, metavar="FOLDER", help="other kernels and steps")
    parser.add_argument("--tables", type=Path, metavar="FOLDER", help="other table rows")
    parser.add_argument("--constants", type=Path, metavar="FILE", help="instead of the shipped")


def main() -> None:
    parser = measure.parser(__doc__ or "", waits=False)
    add_arguments(parser)
    options = parser.parse_args()
    measure.report("accuracy/forecasts", forecast_figures(options), options)


def forecast_figures(options: argparse.Namespace) -> dict[str, Any]:
    """All figures, or those of the folders that were given."""
    constants = load(options.constants) if options.constants else shipped()
    if options.test or options.tables:
        kernels = on_kernels(options.test, constants) if options.test else {}
        return kernels | (on_tables(options.tables, constants) if options.tables else {})
    folder = SHARED / "data"
    if not (folder / "kernels").exists():
        sys.exit(f"no data in {folder}/kernels; set PACELINE_SHARED to what holds data/kernels")
    return {**kernels_left_out(folder / "kernels"), **tables_left_out(folder / "tables")}


def kernels_left_out(folder: Path) -> dict[str, Any]:
    """Classes and steps, each device forecast by the others."""
    measured = samples(folder)
    found: dict[str, Any] = {}
    for name in CLASSES:
        mine = _of_task(measured, name)
        errors = {
            device: error
            for key, rows in mine.items()
            for device, error in left_out(rows, effort_of(key)).items()
        }
        found[f"left_out_{name}"] = _mean(errors.values())
        found[f"left_out_{name}_by_device"] = _rounded(errors)
    return {**found, **_steps_left_out(folder, measured)}


def tables_left_out(folder: Path) -> dict[str, Any]:
    """Today's types: a fifth of the shapes held back, and each device left out."""
    measured, found = samples(folder), {}
    for name, task in TABLES.items():
        shapes: list[tuple[float, int]] = []
        devices: dict[str, list[float]] = defaultdict(list)
        for key, rows in _of_task(measured, task).items():
            by_shape = held_out(rows, effort_of(key))
            shapes += by_shape.values()
            found[f"held_out_{key}"] = _weighted(by_shape.values())
            for device, error in left_out(rows, effort_of(key)).items():
                devices[device].append(error)
        by_device = {device: float(np.mean(errors)) for device, errors in devices.items()}
        found[f"held_out_{name}"] = _weighted(shapes)
        found[f"device_out_{name}"] = _mean(by_device.values())
        found[f"device_out_{name}_by_device"] = _rounded(by_device)
    return found


def on_kernels(folder: Path, constants: Constants) -> dict[str, Any]:
    """Other kernels by class and device, and other steps."""
    require(folder, (*KERNELS, STEPS))
    found: dict[str, Any] = {}
    measured = samples(folder) if holds(folder, KERNELS) else {}
    for name in CLASSES:
        errors = _judged(_of_task(measured, name), constants)
        if errors:
            found[f"test_{name}"] = _weighted(errors.values())
            found[f"test_{name}_by_device"] = _rounded({d: e for d, (e, _) in errors.items()})
    if holds(folder, (STEPS,)):
        rows = _step_rows(folder, dict.fromkeys(sheets_of(folder), constants))
        found |= _told(rows, "test_steps")
        several = [row for row in rows if split_of(row["option"]).gpus > 1]
        fusion = [row for row in rows if row["option"] == "fusion"]
        for name, chosen in (("multi", several), ("fusion", fusion)):
            if chosen:
                found[f"test_{name}_mean"] = _mean(abs(row["error"]) for row in chosen)
    return found


def on_tables(folder: Path, constants: Constants) -> dict[str, Any]:
    """Other rows of today's tables, by class and device."""
    require(folder, TABLE_FILES)
    measured, found = samples(folder), {}
    for name, task in TABLES.items():
        errors = _judged(_of_task(measured, task), constants)
        if errors:
            found[f"tables_{name}"] = _weighted(errors.values())
            found[f"tables_{name}_by_device"] = _rounded({d: e for d, (e, _) in errors.items()})
    return found


def _judged(measured: Samples, constants: Constants) -> Errors:
    """By device, over all types."""
    found: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for key, rows in measured.items():
        task, dtype, _ = key.rsplit(".", 2)
        learned = constants.of((key, f"{task}.{dtype}.nvidia"))
        for sample in rows:
            found[sample.device].append((error_of(learned, sample), len(sample)))
    return {
        device: (_weighted(errors), sum(count for _, count in errors))
        for device, errors in found.items()
    }


def _steps_left_out(folder: Path, measured: Samples) -> dict[str, Any]:
    named = {row["device"] for row in steps_in(folder)}
    known = sheets_of(folder)
    constants = {name: _taught_without(name, measured) for name in known if name in named}
    rows = _step_rows(folder, constants)
    published = {
        f"{name}_steps": {
            "mean": _mean(abs(error) for error in errors),
            "worst": round(max(abs(error) for error in errors), 4),
            "rows": len(errors),
        }
        for name in PUBLISHED
        if (errors := [row[name] for row in rows if row[name] is not None])
    }
    return {**_told(rows, "left_out_steps"), **published}


def _taught_without(device: str, measured: Samples) -> Constants:
    learned = {}
    for key, rows in measured.items():
        mine = next((one for one in rows if one.device == device), None)
        effort = effort_of(key)
        taught = taught_without(mine, rows, effort) if mine else fit(rows, effort, known=False)
        if taught is not None:
            learned[key] = taught
    return Constants(learned)


def _told(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    worst = max(rows, key=lambda row: abs(row["error"]))
    by_device: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        by_device[row["device"]].append(abs(row["error"]))
    return {
        f"{name}_mean": _mean(abs(row["error"]) for row in rows),
        f"{name}_worst": round(abs(worst["error"]), 4),
        f"{name}_worst_row": worst["text"],
        f"{name}_by_device": _rounded({d: float(np.mean(e)) for d, e in by_device.items()}),
        f"{name}_rows": {row["text"]: round(row["error"], 4) for row in rows},
    }


def _step_rows(folder: Path, constants: Mapping[str, Constants]) -> list[dict[str, Any]]:
    """Every row of steps.csv with its forecast's error."""
    known, found = sheets_of(folder), []
    for row in steps_in(folder):
        forecast_ms = _step_ms(folder, row, known[row["device"]], constants[row["device"]])
        measured_ms = float(row["ms"])
        found.append(
            {
                "device": row["device"],
                "option": row["option"],
                "text": " ".join(
                    row[c] for c in ("model", "seq", "batch", "mode", "option", "device") if row[c]
                ),
                "error": forecast_ms / measured_ms - 1,
                **{
                    name: float(row[f"{name}_ms"]) / measured_ms - 1
                    if row.get(f"{name}_ms")
                    else None
                    for name in PUBLISHED
                },
            }
        )
    return found


def _step_ms(folder: Path, row: Mapping[str, str], sheet: Sheet, constants: Constants) -> float:
    model = model_of(row["model"], (folder / "models", SHARED / "data" / "kernels" / "models"))
    run = Pass(int(row["batch"]), int(row["seq"]), row["mode"] == "train", dtype=DType.FLOAT32)
    made = step(model, run, row["option"])
    gpus = split_of(row["option"]).gpus
    return step_forecast(made, sheet, gpus, constants).step_ns / 1e6


def _of_task(measured: Samples, task: str) -> dict[str, list[Sample]]:
    return {key: rows for key, rows in measured.items() if key.split(".")[0] == task}


def _mean(values: Any) -> float:
    return round(float(np.mean(list(values))), 4)


def _weighted(errors: Any) -> float:
    pairs = list(errors)
    return round(sum(e * n for e, n in pairs) / max(1, sum(n for _, n in pairs)), 4)


def _rounded(errors: Mapping[str, float]) -> dict[str, float]:
    return {name: round(error, 4) for name, error in errors.items()}


if __name__ == "__main__":
    ended_plainly(main)
