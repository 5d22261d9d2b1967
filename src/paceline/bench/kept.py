"""What a sweep has measured, in its folder: a line a row as it comes, so that it can go on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from paceline.bench.errors import BenchError
from paceline.bench.point import Point, Reached, Report, Unfit

ROWS: Final = "rows.jsonl"
REPORT: Final = "report.json"


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: exactly one of them is told."""

    point: Point | None = None
    unfit: Unfit | None = None
    reached: Reached | None = None


def rows(folder: Path) -> Iterator[Row]:
    """Those of earlier runs; a line that was cut off is left out."""
    path = folder / ROWS
    if not path.exists():
        return
    lines = path.read_bytes().split(b"\n")
    for line in lines[:-1]:
        try:
            yield msgspec.json.decode(line, type=Row)
        except msgspec.DecodeError as error:
            raise BenchError(
                f"{path} has a line that is no row of a sweep: {error}. Give another -o FOLDER, "
                "or remove the file"
            ) from error


def keep(folder: Path, row: Row) -> None:
    """Behind what is there; what a killed run cut off is cut away first."""
    path = folder / ROWS
    text = path.read_bytes() if path.exists() else b""
    whole = text[: text.rfind(b"\n") + 1]
    path.write_bytes(whole + msgspec.json.encode(row) + b"\n")


def save_report(report: Report, folder: Path) -> None:
    (folder / REPORT).write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1))


def load_report(place: Path) -> Report:
    """From a sweep's folder, or its report."""
    path = place / REPORT if place.is_dir() else place
    try:
        return msgspec.json.decode(path.read_bytes(), type=Report)
    except (OSError, msgspec.DecodeError) as error:
        raise BenchError(
            f"{place} holds no report of a sweep ({error}); `paceline bench run -o FOLDER` "
            "writes one"
        ) from error
