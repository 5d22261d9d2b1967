"""The difference of two runs as data for JSON: every enum by its value, every cause in words."""

from dataclasses import asdict, replace
from enum import Enum, IntEnum
from typing import Any

from paceline.compare import Difference
from paceline.report.text.difference_words import cause_words


def as_data(found: Difference) -> dict[str, Any]:
    """For JSON: every enum by its value."""
    data: dict[str, Any] = _plain(asdict(replace(found, sides=())))
    del data["sides"]  # graphs, and times of every place
    data |= {"change_ns": found.change_ns, "change": found.change, "noise": found.noise}
    for row, cause in zip(data["causes"], found.causes):
        row["words"] = cause_words(cause)
    return data


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, IntEnum):
        return value.name.lower()
    return value.value if isinstance(value, Enum) else value
