"""Rows of a long benchmark, kept one by one, so that a run goes on where the last one stopped.

They lie in benchmarks/results/NAME-rows.json by the machine that they were measured on; on another
machine none of them counts, and all of them stay. Each row says which load it met.
"""

import json
import os
import reprlib
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
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
            keep(name, found)
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
    here = measure.machine()
    return next((each["rows"] for each in _all(name) if each["machine"] == here), {})


def keep(name: str, rows: Mapping[str, Row]) -> None:
    """These and no others of this machine; those of other machines stay."""
    here = {"machine": measure.machine(), "rows": rows}
    others = [each for each in _all(name) if each["machine"] != here["machine"]]
    whole = ",\n".join(_text(**each) for each in (*others, here))
    _file(name).write_text(f'{{"machines": [\n{whole}\n]}}\n')


def _text(machine: Row, rows: Mapping[str, Row]) -> str:
    """A line for each row."""
    told = (f"{json.dumps(key)}: {json.dumps(row, sort_keys=True)}" for key, row in rows.items())
    lines = ",\n".join(sorted(told))
    return f'{{"machine": {json.dumps(machine)}, "rows": {{\n{lines}\n}}}}'


def _all(name: str) -> list[dict[str, Any]]:
    file = _file(name)
    return json.loads(file.read_text())["machines"] if file.exists() else []


def _file(name: str) -> Path:
    return measure.RESULTS / f"{name}-rows.json"
