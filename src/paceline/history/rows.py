"""Entries to rows of the tables, and back."""

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from typing import Any

from paceline.history.entry import Entry, Ground, JobTraits, Kind, Measured, Predicted
from paceline.history.wanted import Wanted
from paceline.predict import Leaning

Classes = Mapping[str, int]


def insert(base: sqlite3.Connection, entry: Entry) -> None:
    """Add the entry, if it is not there."""
    job = astuple(entry.job)
    base.execute("INSERT OR IGNORE INTO jobs (model, world_size, machine) VALUES (?, ?, ?)", job)
    found = base.execute(
        "SELECT id FROM jobs WHERE (model, world_size, machine) = (?, ?, ?)", job
    ).fetchone()
    added = base.execute(
        "INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (entry.key, entry.kind.value, found[0], entry.at_ns, entry.run, entry.name, entry.place,
         entry.outcome),
    )  # fmt: skip
    if not added.rowcount:
        return
    rows = ((entry.key, at, text) for at, text in enumerate(entry.strategies))
    base.executemany("INSERT INTO strategies VALUES (?, ?, ?)", rows)
    if entry.predicted is not None:
        _insert_predicted(base, entry.key, entry.predicted)
    if entry.measured is not None:
        _insert_measured(base, entry.key, entry.measured)


def _insert_predicted(base: sqlite3.Connection, key: str, found: Predicted) -> None:
    leans = (None, None) if found.leans is None else astuple(found.leans)
    row = (key, found.step_ns, found.low_ns, found.high_ns, found.ground.value, *leans,
           found.corrected_work, found.corrected_communication)  # fmt: skip
    base.execute("INSERT INTO predicted VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    _insert_classes(base, key, 0, found.by_class)


def _insert_measured(base: sqlite3.Connection, key: str, found: Measured) -> None:
    row = (key, found.step_ns, found.low_ns, found.high_ns, found.steps)
    base.execute("INSERT INTO measured VALUES (?, ?, ?, ?, ?)", row)
    _insert_classes(base, key, 1, found.by_class)


def _insert_classes(base: sqlite3.Connection, key: str, measured: int, told: Classes) -> None:
    rows = ((key, measured, name, dur_ns) for name, dur_ns in told.items())
    base.executemany("INSERT INTO classes VALUES (?, ?, ?, ?)", rows)


def entries_of(base: sqlite3.Connection, wanted: Wanted) -> Iterator[Entry]:
    """The wanted entries, the oldest first."""
    where, values = _condition(wanted)
    found = base.execute(f"{_SELECT} WHERE {where} ORDER BY e.at_ns, e.key", values).fetchall()
    for row in found:
        yield _entry(base, row)


_SELECT = """
SELECT e.key, e.kind, e.at_ns, e.run, e.name, e.place, e.outcome,
       j.model, j.world_size, j.machine,
       p.step_ns, p.low_ns, p.high_ns, p.ground, p.leans_work, p.leans_communication,
       p.corrected_work, p.corrected_communication,
       m.step_ns, m.low_ns, m.high_ns, m.steps
FROM entries e JOIN jobs j ON j.id = e.job
LEFT JOIN predicted p ON p.entry = e.key LEFT JOIN measured m ON m.entry = e.key
"""


def _entry(base: sqlite3.Connection, row: tuple[Any, ...]) -> Entry:
    key, kind, at_ns, run, name, place, outcome = row[:7]
    strategies = base.execute(
        "SELECT strategy FROM strategies WHERE entry = ? ORDER BY position", (key,)
    )
    return Entry(
        Kind(kind),
        JobTraits(*row[7:10]),
        at_ns,
        run,
        name,
        place,
        tuple(text for (text,) in strategies),
        _predicted(row[10:18], _classes(base, key, 0)),
        _measured(row[18:], _classes(base, key, 1)),
        outcome,
        key,
    )


def _predicted(row: tuple[Any, ...], by_class: Classes) -> Predicted | None:
    step_ns, low_ns, high_ns, ground, lean_work, lean_talk, work, communication = row
    if step_ns is None:
        return None
    leans = None if lean_work is None else Leaning(lean_work, lean_talk)
    told = (step_ns, low_ns, high_ns, Ground(ground), leans)
    return Predicted(*told, work, communication, by_class)


def _measured(row: tuple[Any, ...], by_class: Classes) -> Measured | None:
    step_ns, low_ns, high_ns, steps = row
    return None if step_ns is None else Measured(step_ns, low_ns, high_ns, steps, by_class)


def _classes(base: sqlite3.Connection, key: str, measured: int) -> Classes:
    found = base.execute(
        "SELECT name, dur_ns FROM classes WHERE entry = ? AND measured = ? ORDER BY rowid",
        (key, measured),
    )
    return dict(found.fetchall())


def _condition(wanted: Wanted) -> tuple[str, list[Any]]:
    """SQL of what is wanted, with its values."""
    terms: list[tuple[str, list[Any]]] = []
    if wanted.kinds:
        marks = ", ".join("?" * len(wanted.kinds))
        terms.append((f"e.kind IN ({marks})", [kind.value for kind in wanted.kinds]))
    if wanted.job:
        text = "(substr(j.model, 1, length(?)) = ? OR instr(e.name, ?))"
        terms.append((text, [wanted.job] * 3))
    if wanted.strategy == "none":
        terms.append(("e.key NOT IN (SELECT entry FROM strategies)", []))
    elif wanted.strategy:
        text = (
            "e.key IN (SELECT entry FROM strategies "
            "WHERE strategy = ? OR substr(strategy, 1, length(?) + 1) = ? || '(')"
        )
        terms.append((text, [wanted.strategy] * 3))
    if wanted.since_ns is not None:
        terms.append(("e.at_ns >= ?", [wanted.since_ns]))
    if wanted.until_ns is not None:
        terms.append(("e.at_ns < ?", [wanted.until_ns]))
    if wanted.machine:
        terms.append(("j.machine = ?", [wanted.machine]))
    if wanted.keys:
        text = " OR ".join(["substr(e.key, 1, length(?)) = ?"] * len(wanted.keys))
        terms.append((f"({text})", [key for key in wanted.keys for _ in range(2)]))
    where = " AND ".join(text for text, _ in terms) or "1"
    return where, [value for _, values in terms for value in values]
