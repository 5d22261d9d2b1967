"""Tests here share `lone_job`, which stands beside them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def group_of_one() -> Iterator[None]:
    """The process group of a job's only worker."""
    from lone_job import alone

    with alone():
        yield
