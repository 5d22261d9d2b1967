"""A pipeline hand-over: the last product of one stage's tensor-parallel block goes to the next.

As written, every rank sends the whole activation to its peer. Split, reordered and moved, the
group scatters the sum, computes on slices, sends slices, and the next group gathers: the links
between the groups carry 1 / ranks of the bytes.
"""

from paceline.graph import DType
from paceline.weave.language import AllReduce, Dropout, Send, program, scalar, tensor
from paceline.weave.layout import Group, Partial, Replicated
from paceline.weave.program import Program
from paceline.weave.transforms import applied, p2p, reorder, split


def hand_over(
    rows: int, hidden: int, here: Group, there: Group, *, p: float = 0.1, dtype: DType
) -> Program:
    """AllReduce, bias, dropout, residual, Send."""
    x = tensor("x", (rows, hidden), Partial(), here, dtype=dtype)
    bias = tensor("bias", (hidden,), Replicated(), here, dtype=dtype)
    residual = tensor("residual", (rows, hidden), Replicated(), here, dtype=dtype)
    seed = scalar("seed", here, DType.INT64)
    out = residual + Dropout(AllReduce(x, name="total") + bias, p, seed)
    return program("hand_over", Send(out, there, name="handed"))


def sliced_hand_over(written: Program) -> Program:
    """ReduceScatter, computation on slices, Send of slices, AllGather in the next group."""
    reordered = applied(reorder(applied(split(written, "total")), "total"))
    return applied(p2p(reordered, "handed"))
