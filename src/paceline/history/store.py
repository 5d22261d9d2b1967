"""`History`: the file of entries. Several processes may write to it at once."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from paceline.history.entry import Entry
from paceline.history.errors import HistoryError
from paceline.history.rows import entries_of, insert
from paceline.history.schema import MIGRATIONS, migrate, require_known
from paceline.history.wanted import Wanted

PATIENCE_S = 10.0
"""How long a writer waits for others; a write takes milliseconds."""


@dataclass(frozen=True)
class History:
    """Entries in one SQLite file. Nothing is kept open between calls, so a process that is
    killed leaves whole entries or none."""

    path: Path
    patience_s: float = PATIENCE_S
    migrations: Sequence[str] = MIGRATIONS

    def add(self, *entries: Entry) -> None:
        """All of them or none. An entry that is there already is left as it is."""
        with self._writing() as base:
            for entry in entries:
                insert(base, entry)

    def entries(self, wanted: Wanted | None = None) -> list[Entry]:
        """The oldest first. A file that is not there has none."""
        if not self._there():
            return []
        with self._reading() as base:
            return list(entries_of(base, wanted or Wanted()))

    def forget(self, wanted: Wanted) -> int:
        """Remove these for good; returns how many they were."""
        if not self._there():
            return 0
        with self._writing() as base:
            keys = [(entry.key,) for entry in entries_of(base, wanted)]
            base.executemany("DELETE FROM entries WHERE key = ?", keys)
            base.execute("DELETE FROM jobs WHERE id NOT IN (SELECT job FROM entries)")
        return len(keys)

    def _there(self) -> bool:
        with self._told():
            return self.path.exists()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._told():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            base = self._opened(self.path.resolve().as_uri())
            try:
                require_known(base, self.migrations)  # before anything of the file is changed
                base.execute("PRAGMA journal_mode = WAL")
                migrate(base, self.migrations)
                base.execute("PRAGMA foreign_keys = ON")
                base.execute("PRAGMA secure_delete = ON")
                base.execute("BEGIN IMMEDIATE")
                yield base
                base.commit()
            finally:
                base.close()  # and with it what was not committed is rolled back

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._told():
            base, version = self._read_only()
            try:
                if version < len(self.migrations):
                    base = self._upgraded(base)
                base.execute("BEGIN")
                yield base
            finally:
                base.close()

    def _read_only(self) -> tuple[sqlite3.Connection, int]:
        """The file and its version. Where there is no room for the index of its journal (a full
        disk, one that may not be written), nobody else writes: then it is read without one."""
        uri, journal = self.path.resolve().as_uri(), self.path.with_name(self.path.name + "-wal")
        base = self._opened(f"{uri}?mode=ro")
        try:
            return base, require_known(base, self.migrations)
        except sqlite3.OperationalError as error:
            base.close()
            if str(error) not in _NO_ROOM or (journal.exists() and journal.stat().st_size):
                raise
        except BaseException:
            base.close()
            raise
        base = self._opened(f"{uri}?immutable=1")
        return base, require_known(base, self.migrations)

    def _upgraded(self, base: sqlite3.Connection) -> sqlite3.Connection:
        """A copy in memory, of this version: reading changes no file."""
        copy = sqlite3.connect(":memory:", isolation_level=None)
        base.backup(copy)
        base.close()
        migrate(copy, self.migrations)
        return copy

    def _opened(self, uri: str) -> sqlite3.Connection:
        return sqlite3.connect(uri, uri=True, timeout=self.patience_s, isolation_level=None)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of the file in words, with what to do."""
        try:
            yield
        except HistoryError as error:
            raise HistoryError(f"the history {self.path}: {error}") from error
        except sqlite3.OperationalError as error:
            raise HistoryError(f"the history {self.path}: {_operational(error)}") from error
        except sqlite3.DatabaseError as error:
            raise HistoryError(
                f"the history {self.path} is damaged ({error}) and was left as it is. Move it "
                "away, or give another file with PACELINE_HISTORY"
            ) from error
        except OSError as error:
            raise HistoryError(
                f"the history {self.path} cannot be used: {error.strerror}. Give another file "
                "with PACELINE_HISTORY, or switch it off with PACELINE_HISTORY=off"
            ) from error


def _operational(error: sqlite3.OperationalError) -> str:
    told = _REASONS.get(str(error))
    return f"{told or error}; nothing of it was changed. {_ELSE}"


_REASONS = {
    "database is locked": "another process has been writing to it for too long",
    "database or disk is full": "the disk is full",
    "disk I/O error": "the disk could not be written; it may be full",
    "attempt to write a readonly database": "it may not be written",
    "unable to open database file": "it cannot be opened or made there",
}
_NO_ROOM = frozenset({"unable to open database file", "disk I/O error"})
_ELSE = "Give another file with PACELINE_HISTORY, or switch it off with PACELINE_HISTORY=off"
