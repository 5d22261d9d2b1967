"""Results of tuning and compiling, kept on disk by content: program, machine, versions.

A folder that cannot be written costs time, not correctness: that is logged, and the work goes on.
"""

import hashlib
import json
import logging
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from paceline.machine import processor
from paceline.weave.program import Program

log = logging.getLogger("paceline.weave")


def key(program: Program, *settings: object) -> str:
    """Changes with the program, the machine, the versions, and whatever else is given."""
    parts = (content(program), *machine(), *(str(s) for s in settings))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def content(program: Program) -> str:
    """All that a program computes and how it is launched, without the lines that wrote it."""
    rows = [f"{s.name} {s.op!r} {s.args} {s.type!r}" for s in program]
    return "\n".join([*rows, repr(program.outputs), repr(program.kernels), repr(program.overlaps)])


def machine() -> tuple[str, ...]:
    """What measured times depend on."""
    found = [platform.node(), platform.machine(), str(os.cpu_count()), processor()]
    for library in ("paceline", "torch"):
        try:
            found.append(f"{library} {metadata.version(library)}")
        except metadata.PackageNotFoundError:
            found.append(f"no {library}")
    return tuple(found)


def load(place: Path, name: str) -> Any | None:
    """What was kept under a name, or None; a damaged file counts as none, and says so."""
    path = place / f"{name}.json"
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.warning("cannot use %s (%s); it will be made anew", path, error)
        return None


def keep(place: Path, name: str, document: Any) -> None:
    """Write it whole or not at all."""
    path = place / f"{name}.json"
    try:
        place.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(json.dumps(document, indent=1))
        draft.replace(path)
    except OSError as error:
        log.warning("cannot keep %s (%s); the next run tunes again", path, error)
