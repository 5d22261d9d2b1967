"""Calibrations as JSON files, with the number of their format. Those of version 1 are read too."""

import json
from pathlib import Path

import msgspec

from paceline.measure.calibration import Calibration
from paceline.measure.errors import MeasureError

FORMAT = 2


def save(made: Calibration, path: Path) -> None:
    path.write_text(json.dumps({"format": FORMAT, **msgspec.to_builtins(made)}, indent=2) + "\n")


def load(path: Path) -> Calibration:
    """A calibration kept by `save`, or by the first version of it, which had no `shared` cores."""
    try:
        document = msgspec.json.decode(path.read_bytes(), type=dict[str, object])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MeasureError(f"cannot read calibration {path}: {error}") from error
    if (document.get("format"), document.get("version")) not in ((FORMAT, None), (None, 1)):
        raise MeasureError(
            f"{path} is no calibration of format {FORMAT}; make one with "
            "`paceline measure --out FILE`"
        )
    try:
        return msgspec.convert(document, Calibration)
    except msgspec.ValidationError as error:
        raise MeasureError(f"{path} is no whole calibration: {error}") from error
