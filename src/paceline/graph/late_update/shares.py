"""Wholes cut by sizes."""

from collections.abc import Sequence

import numpy as np

from paceline.graph.graph import Int64
from paceline.graph.rank_steps import totals


def shares(total: int, sizes: Sequence[int]) -> list[int]:
    """A whole cut by sizes, to the last one of it."""
    rows = np.zeros(len(sizes), np.int64)
    found: list[int] = shares_of(np.array([total]), rows, np.array(sizes, np.int64)).tolist()
    return found


def shares_of(totals_ns: Int64, rows: Int64, sizes: Int64) -> Int64:
    """Each row's total cut by the sizes of what belongs to it; rows ascend."""
    begins = np.searchsorted(rows, np.arange(len(totals_ns)))
    passed = np.concatenate([[0], np.cumsum(sizes)])
    whole = np.maximum(1, totals(rows, sizes, len(totals_ns)))[rows]
    within = passed[1:] - passed[begins[rows]]
    ends = np.rint(totals_ns[rows] * within / whole).astype(np.int64)
    found: Int64 = np.diff(ends, prepend=0)
    found[begins[np.unique(rows)]] = ends[begins[np.unique(rows)]]
    return found
