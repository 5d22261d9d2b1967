"""Predictions: alone, and before and after a change."""

from typing import TYPE_CHECKING

import numpy as np

from paceline.graph import Basis
from paceline.predict import WORK_CLASSES, Prediction
from paceline.report.text.quantities import duration

if TYPE_CHECKING:
    from rich.table import Table

CLASSES = (*WORK_CLASSES, "exposed", "communication")
"""Parts of a step in the order in which they are shown; the last runs beside the others."""

_CARRIED = (Basis.SCALED, Basis.FORECAST)
_LABELS = {"exposed": "waiting, exposed communication", "communication": "all communication"}


def label(name: str) -> str:
    """A class of work as people read it."""
    return _LABELS.get(name, name)


def prediction_lines(found: Prediction) -> list[str]:
    """A prediction in words, with its classes and what it rests on."""
    lines = [
        f"step on {found.workers} workers: {duration(found.step_ns)} "
        f"(typical error: {duration(found.low_ns)} to {duration(found.high_ns)})"
    ]
    lines += [
        f"  {label(name):<32}{duration(found.by_class[name]):>10}"
        for name in CLASSES
        if found.by_class.get(name)
    ]
    return [*lines, *(f"rests on {reason}" for reason in found.rests_on)]


def carried_lines(found: Prediction) -> list[str]:
    """The interval of a step whose kernels were carried over or forecast."""
    told = found.prices is not None and np.isin(found.prices.basis, _CARRIED).any()
    ends = f"{duration(found.low_ns)} to {duration(found.high_ns)}"
    return [f"typical error of the step after: {ends}"] if told else []


def prediction_table(before: Prediction, after: Prediction) -> "Table":
    """The step and its parts, of a mean worker."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("mean of all ranks")
    for name in ("before", "after", "change"):
        table.add_column(name, justify="right")
    _add(table, "step", before.step_ns, after.step_ns)
    for name in CLASSES:
        old, new = before.by_class.get(name, 0), after.by_class.get(name, 0)
        if old or new:
            _add(table, f"  {label(name)}", old, new)
    return table


def _add(table: "Table", name: str, old: float, new: float) -> None:
    change = f"{100 * (new / old - 1):+.1f} %" if old else "new"
    table.add_row(name, duration(old), duration(new), "" if new == old else change)
