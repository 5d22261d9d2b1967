"""Entries, drawn by hand, which the tests of the history share."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from paceline.history import Entry, Ground, JobTraits, Kind, Measured, Predicted
from paceline.predict import Leaning

MS = 1_000_000
JOB = JobTraits("0123456789abcdef", 2, "a machine, 2 cores")


def drawn(**told: object) -> Entry:
    """A verdict: predicted 100 ms, measured 110 ms."""
    entry = Entry(
        Kind.VERDICT,
        JOB,
        1_000,
        "runs/a @ 1",
        "torchrun train.py",
        "cluster, 100 Mbit/s",
        ("bf16", "buckets(size_bytes=1048576)"),
        Predicted(100 * MS, 95 * MS, 105 * MS, Ground.SHARED, Leaning(0.4, 0.6), 1.1, 0.9,
                  {"forward": 10, "exposed": 60}),
        Measured(110 * MS, 108 * MS, 112 * MS, 20, {"forward": 11}),
        "",
    )  # fmt: skip
    return replace(entry, **told)


@pytest.fixture
def verdict() -> Callable[..., Entry]:
    return drawn
