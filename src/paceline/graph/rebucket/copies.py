"""New copies back in place of the old ones, on threads that wait for the buckets in turn."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.graph.copy_back import removable
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, LaneKind, OpKind, Phase
from paceline.graph.rank_steps import lasts, totals
from paceline.graph.rebucket.exchange import NEW
from paceline.graph.rebucket.rows import BucketRows
from paceline.graph.rebucket.source import Source
from paceline.graph.splice import Sort


@dataclass(frozen=True, eq=False)
class Copies:
    """The old copies that go, and by rank's step what the new ones are like."""

    first: Int64  # the op that begins them, or NONE
    work: Int64
    on_thread: Bool  # whether a thread makes them
    whole_ns: Int64
    behind: Int64


def copies_of(graph: Graph, source: Source) -> Copies:
    back, count = source.back, len(source.steps)
    thread = graph.lanes.kind[graph.ops.lane[back.first]] == LaneKind.THREAD
    thread &= back.first != NONE
    goes = thread[back.whose] & removable(graph, source.links, source.whose, back)
    work, whose = back.work[goes], back.whose[goes]
    whole = totals(whose, np.maximum(graph.ops.dur_ns[work], 0), count)
    last = lasts(whose, work, count)
    return Copies(back.first, work, thread, whole, np.where(last == NONE, back.first - 1, last))


def exchange_of(source: Source, copies: Copies) -> Bool:
    """All of the buckets' exchange: calls, hand-overs, and copies back."""
    found: Bool = source.whose != NONE
    found[source.launches] = True
    found[copies.work] = True
    return found


def copied_back(graph: Graph, rows: BucketRows, copies: Copies) -> tuple[Bool, Sort, Sort]:
    """For which rows a thread waits; the waits, and the copies behind them."""
    waiting = copies.on_thread[rows.step]
    waits = np.flatnonzero(waiting)
    made = np.flatnonzero(waiting & (copies.whole_ns[rows.step] > 0))
    free = {**_on_thread(graph, rows, copies, waits), "kind": OpKind.WAIT, "dur_ns": 0}
    work = {
        **_on_thread(graph, rows, copies, made),
        "kind": OpKind.COMPUTE,
        "dur_ns": _shares(rows, copies, made),
    }
    return waiting, Sort(rows.turn(waits, 1, 0), free), Sort(rows.turn(made, 1, 1), work)


def _on_thread(graph: Graph, rows: BucketRows, copies: Copies, chosen: Int64) -> dict[str, Any]:
    step = rows.step[chosen]
    like = copies.first[step]
    told = {"like": like, "behind": copies.behind[step], "lane": graph.ops.lane[like]}
    return {**NEW, **told, "phase": int(Phase.BACKWARD)}


def _shares(rows: BucketRows, copies: Copies, chosen: Int64) -> list[int]:
    """Of the copies' time, by bytes; in whole numbers, whose product may pass 2^53."""
    bytes_of_step = totals(rows.step, rows.size_bytes, len(copies.whole_ns))
    step = rows.step[chosen]
    parts = zip(copies.whole_ns[step], rows.size_bytes[chosen], bytes_of_step[step])
    return [round(int(w) * int(size) / max(1, int(every))) for w, size, every in parts]
