"""Batches that lay ready are taken from a worker that is busy meanwhile."""

from pathlib import Path

import pytest

from paceline.feed import Description, Loading, generate
from paceline.feed.torch_taking import taking_of

pytestmark = pytest.mark.live


@pytest.mark.parametrize(("format", "size_bytes"), [("npz", 2_000_000), ("raw", 64)])
def test_taking_is_work_of_the_thread_and_waiting(
    tmp_path: Path, format: str, size_bytes: int
) -> None:
    """A data set of three batches is enough, and batches that are made at once show it too."""
    given = Description("small", format, samples=12, size_bytes=size_bytes, batch=4, seed=1)
    found = taking_of(generate(given, tmp_path / "data"), Loading())
    assert 1_000 < found.ran_ns < 1e9
    assert 10_000 < found.took_ns < 1e9
