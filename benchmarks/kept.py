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


def rows(name: str, makers: Mapping[str, Callable[[], Row]], minutes: float) -> dict[str, Row]:
    """Every row that is kept or can be made within the time, in the order of their makers."""
    end, found = time.monotonic() + 60 * minutes, load(name)
    for key, make in makers.items():
        if key not in found and time.monotonic() < end:
            found[key] = make() | {"load": os.getloadavg()[0]}
            _keep(name, found)
            print(f"{key}: {SHORT.repr(found[key])}", file=sys.stderr, flush=True)
    return {key: found[key] for key in makers if key in found}


def load(name: str) -> dict[str, Row]:
    """What is kept of this machine."""
    file = measure.RESULTS / f"{name}-rows.json"
    held = json.loads(file.read_text()) if file.exists() else {}
    found: dict[str, Row] = held["rows"] if held.get("machine") == measure.machine() else {}
    return found


def _keep(name: str, found: Mapping[str, Row]) -> None:
    text = json.dumps({"machine": measure.machine(), "rows": found}, indent=0, sort_keys=True)
    (measure.RESULTS / f"{name}-rows.json").write_text(text + "\n")
