"""Durations multiplied, and durations that are no longer known."""

import numpy as np

from paceline.graph import UNPRICED, Graph, GraphBuilder, OpKind
from paceline.graph.scaled import ppb, scaled, unpriced


def sampled() -> Graph:
    """Three ops of 10, 20 and 30 ns, the first two with samples."""
    b = GraphBuilder()
    lane = b.lane()
    ops = [b.op(f"op {took}", lane, took) for took in (10, 20, 30)]
    b.samples(ops[0], [9, 11])
    b.samples(ops[1], [18, 20, 22])
    return b.build()


def test_an_op_without_a_price_has_no_samples_and_others_keep_theirs() -> None:
    found = unpriced(sampled(), np.array([True, False, True]))
    assert found.ops.dur_ns.tolist() == [UNPRICED, 20, UNPRICED]
    assert found.spread is not None
    assert found.spread.ptr.tolist() == [0, 0, 3, 3]
    assert found.spread.samples_ns.tolist() == [18, 20, 22]


def test_samples_are_scaled_with_their_op() -> None:
    found = scaled(sampled(), np.array([1]), 3)
    assert found.ops.dur_ns.tolist() == [10, 60, 30]
    assert found.spread is not None
    assert found.spread.samples_ns.tolist() == [9, 11, 54, 60, 66]


def test_what_is_priced_later_is_scaled_later() -> None:
    b = GraphBuilder()
    lane = b.lane()
    b.op("known", lane, 10)
    b.op("unknown", lane, UNPRICED)
    b.op("sent", lane, 10, kind=OpKind.TRANSFER)
    found = scaled(b.build(), np.arange(3), 2)
    assert found.ops.dur_ns.tolist() == [20, UNPRICED, 20]
    assert ppb(found).tolist() == [1, 2, 2]
