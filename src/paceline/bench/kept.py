"""What a sweep has measured, in its folder: a line a row as it comes, so that it can go on.

Each row says with what it was measured. Rows of another machine, version or setting lie there too
and do not count.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from paceline.bench.errors import BenchError
from paceline.bench.point import Point, Reached, Report, Unfit
from paceline.measure.peaks import Peaks

ROWS: Final = "rows.jsonl"
REPORT: Final = "report.json"
PEAKS: Final = "peaks.json"
_NAMES: Final = {Report: REPORT, Peaks: PEAKS}


class Setting(msgspec.Struct, frozen=True, omit_defaults=True):
    """With what a row was measured."""

    machine: str
    versions: dict[str, str]
    threads: int = 1  # of a worker
    steps: int = 0  # recorded; 0 of a training to its quality
    limit_bytes: int = 0  # that a worker was given; 0: its part of what is free
    data: str = ""  # the folder that was given
    own: str = ""  # the command of a job that is none of the suite


class KeptRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: exactly one of point, unfit and reached is told."""

    setting: Setting | None = None
    point: Point | None = None
    unfit: Unfit | None = None
    reached: Reached | None = None


def rows(folder: Path, setting: Setting) -> Iterator[KeptRow]:
    """Those that were measured so; a line that was cut off is left out."""
    return (row for row in all_rows(folder) if row.setting == setting)


def all_rows(folder: Path) -> Iterator[KeptRow]:
    path = folder / ROWS
    if not path.exists():
        return
    lines = path.read_bytes().split(b"\n")
    for line in lines[:-1]:
        try:
            yield msgspec.json.decode(line, type=KeptRow)
        except msgspec.DecodeError as error:
            raise BenchError(
                f"{path} has a line that is no row of a sweep: {error}. Give another -o FOLDER, "
                "or remove the file"
            ) from error


def keep(folder: Path, row: KeptRow) -> None:
    """Behind what is there; what a killed run cut off is cut away first."""
    path = folder / ROWS
    text = path.read_bytes() if path.exists() else b""
    whole = text[: text.rfind(b"\n") + 1]
    path.write_bytes(whole + msgspec.json.encode(row) + b"\n")


def save(value: Report | Peaks, folder: Path) -> None:
    """As JSON, under the name that its kind has in a sweep's folder."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=1)
    (folder / _NAMES[type(value)]).write_bytes(text + b"\n")


def load_report(place: Path) -> Report:
    """From a sweep's folder, or its report."""
    return _load(place / REPORT if place.is_dir() else place, Report)


def load_peaks(folder: Path) -> Peaks | None:
    """From a sweep's folder; None where it has none yet."""
    path = folder / PEAKS
    return _load(path, Peaks) if path.exists() else None


_Kept = TypeVar("_Kept", Report, Peaks)


def _load(path: Path, kind: type[_Kept]) -> _Kept:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise BenchError(
            f"{path} holds no {kind.__name__.lower()} of a sweep ({error}); `paceline bench run "
            "-o FOLDER` writes one"
        ) from error
