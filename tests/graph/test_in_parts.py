"""Parquet files of several row groups, read one group after the other."""

import numpy as np
import pytest

from paceline.errors import FileError
from paceline.graph.columns import decode
from paceline.graph.in_arrow import arrow_type, to_arrow

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
COLUMNS = {
    "same": (np.full(10, 7, np.int64), "int64"),
    "none": (np.full(10, -1, np.int32), "int32"),
    "flag": (np.ones(10, np.bool_), "bool"),
    "late": (np.array([3] * 9 + [4], np.int32), "int32"),
    "any": (np.arange(10, dtype=np.uint8), "uint8"),
    "turns": (np.array([True, False] * 5), "bool"),
    "name": ([f"op {i}" for i in range(10)], "text"),
    "ranks": ([[i] * (i % 3) for i in range(10)], "ranks"),
}
LAYOUT = {name: kind for name, (_, kind) in COLUMNS.items()}


def written(rows_in_group: int) -> bytes:
    arrays = [to_arrow(values, kind) for values, kind in COLUMNS.values()]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays, names=list(COLUMNS)), sink, row_group_size=rows_in_group)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("rows_in_group", [1, 3, 5, 9, 10])
def test_columns_are_the_same_however_many_groups_hold_them(rows_in_group: int) -> None:
    found = decode(written(rows_in_group), LAYOUT, "it")
    for name, (wanted, kind) in COLUMNS.items():
        assert list(found[name]) == list(wanted), name
        if isinstance(found[name], np.ndarray):
            assert found[name].dtype == kind


def test_a_column_of_one_value_takes_no_memory() -> None:
    found = decode(written(3), LAYOUT, "it")
    assert [
        name for name in ("same", "none", "flag", "late", "any") if not any(found[name].strides)
    ] == [
        "same",
        "none",
        "flag",
    ]


def test_a_cell_that_is_missing_from_a_later_group_is_told() -> None:
    sink = pa.BufferOutputStream()
    column = pa.array([1, 2, 3, None], arrow_type("int32"))
    pq.write_table(pa.table([column], names=["op"]), sink, row_group_size=2)
    with pytest.raises(FileError, match="it has empty cells"):
        decode(bytes(sink.getvalue()), {"op": "int32"}, "it")
