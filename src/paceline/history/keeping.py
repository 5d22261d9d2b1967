"""`keep`: the one seam by which commands write to the history. It never fails the command.

What cannot be written (the file is locked, of a newer version, damaged) is set aside in a folder
beside it, one small file an entry, and goes in with the next entry that can. Where that fails too
(a full disk, a folder that may not be written) the entry is lost, and that is said.
"""

import logging
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from paceline.errors import FileError
from paceline.graph.atomic import atomic_file
from paceline.history.entry import Entry
from paceline.history.errors import HistoryError
from paceline.history.place import place
from paceline.history.store import History

ASIDE = ".aside"


def opened() -> History | None:
    """The history of this process; None where it is switched off."""
    path = place(os.environ, Path.cwd())
    return None if path is None else History(path)


def keep(*entries: Entry, history: History | None = None) -> bool:
    """Write the entries; whether they are in the history now."""
    history = history or opened()
    if history is None or not entries:
        return False
    waiting = dict(_aside(history))
    try:
        history.add(*waiting.values(), *entries)
    except HistoryError as error:
        _say(f"{error}. {_set_aside(history, entries)}")
        return False
    for path in waiting:
        path.unlink(missing_ok=True)
    return True


@cache
def _say(message: str) -> None:
    """Each thing once in a process."""
    logging.getLogger(__name__).warning(message)


def _set_aside(history: History, entries: tuple[Entry, ...]) -> str:
    folder = _folder(history)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for entry in entries:
            with atomic_file(folder / f"{entry.key}.json") as hidden:
                hidden.write_bytes(msgspec.json.encode(entry))
    except (OSError, FileError) as error:
        return f"What was to be kept is lost ({error})"
    return f"What was to be kept waits in {folder}, and goes in with the next entry that can"


def _aside(history: History) -> Iterator[tuple[Path, Entry]]:
    for path in sorted(_folder(history).glob("*.json")):
        try:
            yield path, msgspec.json.decode(path.read_bytes(), type=Entry)
        except FileNotFoundError:
            continue  # another process has just taken it in
        except (OSError, msgspec.DecodeError) as error:
            _say(f"{path} is no entry of a history and was left there: {error}")


def _folder(history: History) -> Path:
    return history.path.with_name(history.path.name + ASIDE)
