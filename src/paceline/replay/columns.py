"""`Columns`: what an engine returns; one row an op, as in the graph."""

from dataclasses import dataclass

import numpy as np

from paceline.graph.graph import Int32, Int64


@dataclass(frozen=True, eq=False)
class Columns:
    """When each op arrived, started and ended, and what came before it.

    `previous` and `order` are None where the graph alone determines them (see `Timeline`).
    """

    ready_ns: Int64  # it took its lane: dependencies ended, lane free
    start_ns: Int64  # it began its work: partners arrived, drained lanes done
    end_ns: Int64
    previous: Int32 | None  # the op that its lane served just before, or NONE
    order: Int32 | None  # all ops, each after everything that it waited for
    drained: Int32  # rows (op, other): `op` waited for `other` because it drains that lane

    @staticmethod
    def of(
        times: tuple[list[int], list[int], list[int]],
        previous: list[int],
        order: list[int],
        drained: list[tuple[int, int]],
    ) -> "Columns":
        ready, start, end = (np.array(t, np.int64) for t in times)
        pairs = np.array(sorted(drained), np.int32).reshape(-1, 2)
        return Columns(
            ready, start, end, np.array(previous, np.int32), np.array(order, np.int32), pairs
        )
