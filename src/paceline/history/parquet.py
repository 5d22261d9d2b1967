"""Entries as one Parquet table: a row an entry, a column a figure."""

from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from paceline.graph.atomic import atomic_file
from paceline.history.entry import Entry

_COLUMNS = {
    "key": "string",
    "kind": "string",
    "at_ns": "int64",
    "model": "string",
    "world_size": "int64",
    "machine": "string",
    "run": "string",
    "name": "string",
    "place": "string",
    "outcome": "string",
    "strategies": "list",
    "predicted_ns": "int64",
    "predicted_low_ns": "int64",
    "predicted_high_ns": "int64",
    "ground": "string",
    "leans_work": "float64",
    "leans_communication": "float64",
    "corrected_work": "float64",
    "corrected_communication": "float64",
    "measured_ns": "int64",
    "measured_p10_ns": "int64",
    "measured_p90_ns": "int64",
    "steps": "int64",
    "error": "float64",
}


def export(entries: Sequence[Entry], path: Path) -> None:
    """Write them; what an entry does not have is null."""
    import pyarrow as pa
    import pyarrow.parquet

    types = {"string": pa.string(), "int64": pa.int64(), "float64": pa.float64(),
             "list": pa.list_(pa.string())}  # fmt: skip
    schema = pa.schema([(name, types[kind]) for name, kind in _COLUMNS.items()])
    table = pa.Table.from_pylist([row_of(entry) for entry in entries], schema=schema)
    with atomic_file(path) as hidden:
        pyarrow.parquet.write_table(table, hidden)


def row_of(entry: Entry) -> dict[str, Any]:
    """An entry as plain values by column."""
    guess, seen = entry.predicted, entry.measured
    predicted = (None,) * 8
    if guess is not None:
        leans = (None, None) if guess.leans is None else astuple(guess.leans)
        predicted = (guess.step_ns, guess.low_ns, guess.high_ns, guess.ground.value, *leans,
                     guess.corrected_work, guess.corrected_communication)  # fmt: skip
    measured = (seen.step_ns, seen.low_ns, seen.high_ns, seen.steps) if seen else (None,) * 4
    who = (entry.key, entry.kind.value, entry.at_ns, *astuple(entry.job))
    told = (entry.run, entry.name, entry.place, entry.outcome, list(entry.strategies))
    return dict(zip(_COLUMNS, (*who, *told, *predicted, *measured, entry.error), strict=True))
