"""Rows of a long benchmark, kept one by one, so that a run goes on where the last one stopped.

They lie in benchmarks/results/NAME-rows.json beside the machine that they were measured on; on
another machine none of them counts. Each row says which load it met.
"""

import json
import os
import reprlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import measure

Row = dict[str, Any]

SHORT = reprlib.Repr()
"""What is printed of a row: all its figures, and of long lists the beginning."""
SHORT.maxdict = SHORT.maxlevel = 50
SHORT.maxlist = 8


class NotMade(Exception):
    """Why a row could not be made. The others are, and the next run tries it again."""


def rows(
    name: str, makers: Mapping[str, Callable[[], Row]], minutes: float, *, fresh: bool = False
) -> dict[str, Row]:
    """Every row that is kept or can be made within the time, in the order of their makers; with
    `fresh` those of the makers are made anew."""
    end, found = time.monotonic() + 60 * minutes, load(name)
    if fresh:
        found = {key: row for key, row in found.items() if key not in makers}
    for key, make in makers.items():
        if key not in found and time.monotonic() < end:
            told = _made(key, make, found)
            _keep(name, found)
            print(f"{key}: {told}", file=sys.stderr, flush=True)
    return {key: found[key] for key in makers if key in found}


def _made(key: str, make: Callable[[], Row], found: dict[str, Row]) -> str:
    """The row, put to the others, in short; or why there is none."""
    try:
        found[key] = make() | {"load": os.getloadavg()[0]}
    except NotMade as why:
        return f"not made: {why}"
    return SHORT.repr(found[key])


def load(name: str) -> dict[str, Row]:
    """What is kept of this machine."""
    file = measure.RESULTS / f"{name}-rows.json"
    held = json.loads(file.read_text()) if file.exists() else {}
    found: dict[str, Row] = held["rows"] if held.get("machine") == measure.machine() else {}
    return found


def _keep(name: str, found: Mapping[str, Row]) -> None:
    text = json.dumps({"machine": measure.machine(), "rows": found}, indent=0, sort_keys=True)
    (measure.RESULTS / f"{name}-rows.json").write_text(text + "\n")
