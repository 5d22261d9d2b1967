"""The tables of a history, and how a file of an older version becomes one of this version.

`PRAGMA user_version` is the version, `application_id` says that a file is a history at all. A
migration is a script that is added to the end of the list and never changed again.
"""

import sqlite3
from collections.abc import Sequence

from paceline.history.errors import HistoryError

APPLICATION = 0x50414345  # "PACE"

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE jobs (
        id INTEGER PRIMARY KEY,
        model TEXT NOT NULL,
        world_size INTEGER NOT NULL CHECK (world_size >= 0),
        machine TEXT NOT NULL,
        UNIQUE (model, world_size, machine)
    );
    CREATE TABLE entries (
        key TEXT PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('recording', 'prediction', 'trial', 'verdict')),
        job INTEGER NOT NULL REFERENCES jobs (id),
        at_ns INTEGER NOT NULL,
        run TEXT NOT NULL,
        name TEXT NOT NULL,
        place TEXT NOT NULL,
        outcome TEXT NOT NULL
    );
    CREATE TABLE predicted (
        entry TEXT PRIMARY KEY REFERENCES entries (key) ON DELETE CASCADE,
        step_ns INTEGER NOT NULL CHECK (step_ns >= 0),
        low_ns INTEGER NOT NULL,
        high_ns INTEGER NOT NULL,
        ground TEXT NOT NULL CHECK (ground IN ('recorded', 'cluster', 'shared')),
        leans_work REAL,
        leans_communication REAL,
        corrected_work REAL NOT NULL CHECK (corrected_work > 0),
        corrected_communication REAL NOT NULL CHECK (corrected_communication > 0)
    );
    CREATE TABLE measured (
        entry TEXT PRIMARY KEY REFERENCES entries (key) ON DELETE CASCADE,
        step_ns INTEGER NOT NULL CHECK (step_ns >= 0),
        low_ns INTEGER NOT NULL,
        high_ns INTEGER NOT NULL,
        steps INTEGER NOT NULL CHECK (steps >= 0)
    );
    CREATE TABLE classes (
        entry TEXT NOT NULL REFERENCES entries (key) ON DELETE CASCADE,
        measured INTEGER NOT NULL CHECK (measured IN (0, 1)),
        name TEXT NOT NULL,
        dur_ns INTEGER NOT NULL,
        PRIMARY KEY (entry, measured, name)
    );
    CREATE TABLE strategies (
        entry TEXT NOT NULL REFERENCES entries (key) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        strategy TEXT NOT NULL,
        PRIMARY KEY (entry, position)
    );
    CREATE INDEX entries_at ON entries (at_ns);
    CREATE INDEX entries_job ON entries (job);
    """,
)


def migrate(base: sqlite3.Connection, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Bring the file to this version, in one transaction that other writers wait for."""
    if require_known(base, migrations) == len(migrations):
        return
    base.execute("BEGIN IMMEDIATE")
    try:
        for script in migrations[require_known(base, migrations) :]:
            for statement in filter(str.strip, script.split(";")):
                base.execute(statement)
        base.execute(f"PRAGMA application_id = {APPLICATION}")
        base.execute(f"PRAGMA user_version = {len(migrations)}")
    except BaseException:
        base.rollback()
        raise
    base.commit()


def require_known(base: sqlite3.Connection, migrations: Sequence[str] = MIGRATIONS) -> int:
    """The file's version; refuses newer ones, and files of other programs."""
    version, application, tables = _at_one_moment(base)
    if application != APPLICATION and (application or version or tables):
        raise HistoryError(
            "it is a database of another program and was left as it is. Give another file with "
            "PACELINE_HISTORY"
        )
    if version > len(migrations):
        raise HistoryError(
            f"it is of version {version}, and this Paceline knows versions up to "
            f"{len(migrations)}; it was left as it is. Update Paceline, or give another file "
            "with PACELINE_HISTORY"
        )
    return version


def _at_one_moment(base: sqlite3.Connection) -> tuple[int, int, int]:
    """Version, application and number of tables, between which nobody can make or migrate the
    file: read apart, tables of another writer's new history would seem to be a stranger's."""
    base.execute("SAVEPOINT looked")
    tables = int(base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    found = _pragma(base, "user_version"), _pragma(base, "application_id"), tables
    base.execute("RELEASE looked")
    return found


def _pragma(base: sqlite3.Connection, name: str) -> int:
    return int(base.execute(f"PRAGMA {name}").fetchone()[0])
