"""Which labs stand on this machine: one small file each, found again by name after a crash."""

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from paceline.lab.errors import LabError


@dataclass(frozen=True)
class Process:
    """A process by number and start time, so that a reused number is not taken for it."""

    pid: int
    started: int

    @staticmethod
    def of(pid: int) -> "Process | None":
        """The process that has this number now."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
        return None if fields[0] == "Z" else Process(pid, int(fields[19]))

    @property
    def alive(self) -> bool:
        return Process.of(self.pid) == self


@dataclass(frozen=True)
class Entry:
    """What tearing a lab down, or running in it, needs to know."""

    name: str
    owner: Process | None = None  # whose end ends the lab; None: it stands until `lab down`
    holder: Process | None = None  # keeps its user namespace open; None: root's
    cluster: str = ""  # YAML of what it stands for

    @property
    def abandoned(self) -> bool:
        """Its owner, or what kept it open, was killed."""
        return any(p is not None and not p.alive for p in (self.owner, self.holder))


def folder() -> Path:
    """Root's labs are the machine's; another user's are their own."""
    if os.geteuid() == 0:
        return Path("/run/paceline-lab")
    return Path(tempfile.gettempdir()) / f"paceline-lab-{os.geteuid()}"


def claim(entry: Entry) -> None:
    """Take the name; an error where a lab of that name stands."""
    folder().mkdir(mode=0o700, exist_ok=True)
    try:
        with _path(entry.name).open("x") as file:
            json.dump(asdict(entry), file)
    except FileExistsError:
        raise LabError(
            f"a lab named {entry.name!r} is in use; take another name (--name), "
            f"or remove it: paceline lab down --name {entry.name}"
        ) from None


def update(entry: Entry) -> None:
    _path(entry.name).write_text(json.dumps(asdict(entry)))


def entries() -> list[Entry]:
    return [_read(path) for path in sorted(folder().glob("*.json"))]


def find(name: str) -> Entry:
    if not _path(name).exists():
        known = ", ".join(e.name for e in entries()) or "none"
        raise LabError(
            f"there is no lab named {name!r}; standing: {known}. Make one: paceline lab up"
        )
    return _read(_path(name))


def release(name: str) -> None:
    _path(name).unlink(missing_ok=True)


def _path(name: str) -> Path:
    return folder() / f"{name}.json"


def _read(path: Path) -> Entry:
    try:
        raw = json.loads(path.read_text())
        people = {k: Process(**raw[k]) if raw[k] else None for k in ("owner", "holder")}
        return Entry(raw["name"], cluster=raw["cluster"], **people)
    except (ValueError, TypeError, KeyError):
        # Its writer was killed half way; the name is all that tearing down needs.
        return Entry(path.stem)
