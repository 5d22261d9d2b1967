"""A cluster file that is no text at all."""

from pathlib import Path

import pytest

from paceline.cluster.files import load
from paceline.errors import PacelineError


def test_bytes_that_are_no_text_are_a_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_bytes(b"hosts: \xff")
    with pytest.raises(PacelineError, match=r"cluster\.yaml is no text"):
        load(file)
