"""`show --more TOPIC`: one analysis of a run, computed and shown. Not a command: its name begins
with an underscore."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

TOPICS = (
    "device", "idle", "kernels", "sequences", "launches", "copies", "tree", "shapes", "counters",
)  # fmt: skip
"""Those of `paceline.analyse.topics`, which is not imported for a list of names."""


def analysed(topic: str, run: str, top: int) -> tuple[Any, ...]:
    """The topic's values, most first."""
    from paceline.analyse.topics import TOPICS as ALL
    from paceline.analyse.topics import Analysed

    return ALL[topic](Analysed(Path(run)), top)


def as_rows(found: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [asdict(each) for each in found]


def shown(topic: str, found: tuple[Any, ...], top: int) -> Any:
    """Something that rich prints; where there is nothing to count, the sentence that says so."""
    from paceline.report.text.analyses import ROWS, tree_shown

    if topic == "tree":
        return tree_shown(found, top)
    rows = ROWS[topic](found, top)
    return rows.table() if rows.columns else rows.title
