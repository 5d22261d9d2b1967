"""Folders and files of measurements that somebody gives: read, or refused in one plain sentence."""

import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from paceline.cost.forecast.sheet import Sheet
from paceline.cost.forecast.sheets import sheets_of
from paceline.cost.forecast.unreadable import BROKEN, spelled
from paceline.errors import PacelineError
from paceline.imagine.language import Language, language, split_of

STEPS = "steps.csv"
_COLUMNS = ("model", "seq", "batch", "mode", "option", "device", "ms")
Row = Mapping[str, str]


class FolderError(PacelineError):
    """What was given cannot be judged."""


def ended_plainly(run: Callable[[], None]) -> None:
    """Errors that somebody can act on end the program with their sentence alone."""
    try:
        run()
    except PacelineError as error:
        sys.exit(str(error))


def require(folder: Path, tables: Sequence[str]) -> None:
    """A folder with at least one of these tables, or with steps where those are named."""
    if not folder.is_dir():
        raise FolderError(f"{folder} is no folder; give one that holds {', '.join(tables)}")
    if not holds(folder, tables):
        raise FolderError(
            f"{folder} holds nothing to judge; give a folder with any of {', '.join(tables)}, as "
            ".csv or .csv.gz, and devices.json or devices.yaml"
        )


def holds(folder: Path, tables: Sequence[str]) -> bool:
    return any((folder / file).exists() for name in tables for file in _files(name))


def steps_in(folder: Path) -> list[Row]:
    """Rows of whole models, each of which can be forecast."""
    with _told(f"{folder / STEPS}"), (folder / STEPS).open() as file:
        rows = list(csv.DictReader(file))
    if not rows:
        raise FolderError(f"{folder / STEPS} has no rows")
    if missing := [name for name in _COLUMNS if name not in rows[0]]:
        raise FolderError(f"{folder / STEPS} lacks the columns {', '.join(missing)}")
    known = sheets_of(folder)
    for number, row in enumerate(rows, 2):
        _require_step(row, known, f"{folder / STEPS}, line {number}")
    return rows


def model_of(name: str, folders: Sequence[Path]) -> Language:
    """By its configuration in the first of the folders that is there."""
    there = next((folder for folder in folders if folder.exists()), folders[0])
    with _told(f"{there / name}.json, the configuration of a model in {STEPS},"):
        return language(json.loads((there / f"{name}.json").read_text()))


def _require_step(row: Row, known: Mapping[str, Sheet], place: str) -> None:
    if row["device"] not in known:
        raise FolderError(
            f"{place} names device {row['device']!r}, of which there is no data sheet; there are "
            f"those of {', '.join(known)}"
        )
    try:
        split_of(row["option"])
        sizes = int(row["seq"]), int(row["batch"]), float(row["ms"])
    except (PacelineError, ValueError) as error:
        raise FolderError(f"{place}: {error}") from error
    if min(sizes) <= 0:
        raise FolderError(f"{place}: seq, batch and ms are {sizes}; give values above zero")


def _files(name: str) -> tuple[str, ...]:
    return (STEPS,) if name == STEPS else (f"{name}.csv", f"{name}.csv.gz")


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except PacelineError:
        raise
    except BROKEN as error:
        raise FolderError(f"{what} cannot be read: {spelled(error)}") from error
