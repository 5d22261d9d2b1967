"""Columns as Arrow arrays: the same as pyarrow makes, without what it imports."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paceline.errors import FileError
from paceline.graph.in_arrow import arrow_type, to_arrow, to_numpy

COLUMNS: tuple[tuple[str, Any], ...] = (
    ("int32", np.array([3, -1, 2], np.int32)),
    ("int64", np.arange(10)[::2]),
    ("uint8", [0, 255]),
    ("bool", np.array([True, False] * 9)),
    ("int64", []),
    ("text", ("", "ein Übergang", "\x00", "層")),
    ("text", ()),
    ("ranks", [(0, 1), (), (2,)]),
    ("sizes", [[1 << 40], [2, 3]]),
    ("sizes", []),
)


@pytest.mark.parametrize(("kind", "values"), COLUMNS)
def test_a_column_is_the_array_that_pyarrow_makes_of_it(kind: str, values: Any) -> None:
    made = to_arrow(values, kind)
    made.validate(full=True)
    assert made.equals(pa.array(values, arrow_type(kind)))


@pytest.mark.parametrize(("kind", "values"), [c for c in COLUMNS if c[0] in ("int32", "bool")])
def test_numbers_come_back_as_they_were(kind: str, values: Any) -> None:
    found = to_numpy(to_arrow(values, kind))
    assert found.dtype == kind
    assert found.tolist() == list(values)


@pytest.mark.parametrize("values", [[1.5], [256], np.array([-1])])
def test_numbers_that_do_not_fit_their_column_are_refused(values: Any) -> None:
    with pytest.raises(FileError, match="uint8"):
        to_arrow(values, "uint8")


@pytest.mark.skipif(find_spec("pandas") is None, reason="this machine lacks pandas")
def test_saving_and_reading_a_graph_does_not_import_pandas(tmp_path: Path) -> None:
    code = (
        "import sys; from paceline.graph import load_graph, save_graph\n"
        "from paceline.graph.synthetic import Ring, ring\n"
        "load_graph(save_graph(ring(Ring(ranks=2)), sys.argv[1]))\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "graph")], check=True)
