"""Learning curves from a file: how accurate a training was behind which optimizer step.

Two columns, `step` and `accuracy`, as CSV or as JSON lines; more columns are passed over. Any
script writes such a file beside its evaluation.
"""

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from paceline.learn.curve import Curve, scatter
from paceline.learn.errors import LearnError
from paceline.learn.law import LEAST

COLUMNS = ("step", "accuracy")


def read_curve(path: Path) -> Curve:
    """One run's."""
    try:
        rows = sorted(_pairs(path, _table(path)))
    except OSError as error:
        raise LearnError(
            f"cannot read {path}: {error.strerror}; give a file with columns step and accuracy"
        ) from error
    if len({step for step, _ in rows}) < LEAST:
        raise LearnError(
            f"{path} tells the accuracy behind {len(rows)} steps; give {LEAST} or more, so that a "
            "curve can be carried on"
        )
    wrong = [accuracy for _, accuracy in rows if not 0 <= accuracy <= 1]
    if wrong:
        raise LearnError(
            f"{path} has an accuracy of {wrong[0]:g}; give shares of right answers, from 0 to 1"
        )
    steps, accuracy = (np.array(column, np.float64) for column in zip(*rows))
    return Curve(steps, accuracy, scatter(accuracy))


def _table(path: Path) -> list[Mapping[str, object]]:
    text = path.read_text()
    if text.lstrip().startswith("{"):
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise LearnError(f"{path} is neither CSV nor JSON lines: {error}") from error
    return list(csv.DictReader(text.splitlines()))


def _pairs(path: Path, rows: Iterable[Mapping[str, object]]) -> Iterable[tuple[float, float]]:
    for number, row in enumerate(rows, 1):
        try:
            step, accuracy = (float(str(row[name])) for name in COLUMNS)
        except (KeyError, ValueError, TypeError) as error:
            raise LearnError(
                f"row {number} of {path} has no {' and '.join(COLUMNS)} as numbers: {row}"
            ) from error
        yield step, accuracy
