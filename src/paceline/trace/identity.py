"""What a kept graph was made of, so that one older than its recording is noticed."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from paceline.graph.atomic import atomic_file
from paceline.graph.files import HEADER, KEPT

MADE_OF: Final = "graph-made-of.json"
_RECORDED: Final = ("rank-*.json", "rank-*.jsonl", "job.json")
_CODE: Final = Path(__file__).parent


class Identity(msgspec.Struct, frozen=True):
    """Digests of a recording's files and of the code that builds graphs from them."""

    recording: str
    code: str


class MadeOf(msgspec.Struct, frozen=True):
    """What a graph was made of, and which graph: another may have been put in its place."""

    identity: Identity
    graph: str


def identity_of(run: Path) -> Identity:
    """What a graph built now would be made of."""
    return Identity(_recording(run), _code())


def kept_identity(run: Path) -> Identity | None:
    """What the graph in the folder was made of; None where there is none, or it is unknown."""
    try:
        made_of = msgspec.json.decode((run / MADE_OF).read_bytes(), type=MadeOf)
        return made_of.identity if made_of.graph == _graph(run) else None
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def keep_identity(identity: Identity, run: Path) -> None:
    with atomic_file(run / MADE_OF) as hidden:
        hidden.write_bytes(msgspec.json.encode(MadeOf(identity, _graph(run))))


def _graph(run: Path) -> str:
    """A graph's header holds the digests of its tables."""
    return hashlib.sha256((run / KEPT / HEADER).read_bytes()).hexdigest()


def _recording(run: Path) -> str:
    """Names, sizes and times of change: reading gigabytes of traces would take too long."""
    return digest_of(file for pattern in _RECORDED for file in run.glob(pattern))


def digest_of(files: Iterable[Path]) -> str:
    """Of names, sizes and times of change; one that vanished meanwhile is not there."""
    then = []
    for file in sorted(files):
        with suppress(FileNotFoundError):
            stat = file.stat()
            then.append((file.name, stat.st_size, stat.st_mtime_ns))
    return hashlib.sha256(repr(then).encode()).hexdigest()


@cache
def _code() -> str:
    digest = hashlib.sha256()
    for file in sorted(_CODE.rglob("*.py")):
        digest.update(f"{file.relative_to(_CODE)}\n".encode() + file.read_bytes())
    return digest.hexdigest()
