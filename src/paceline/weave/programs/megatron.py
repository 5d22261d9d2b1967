"""Epilogues of Megatron's tensor-parallel blocks: MatMul, AllReduce, bias, dropout, residual.

Shoeybi et al. 2019, figure 3: the second product of self-attention (heads are split over the
group) and of the MLP (its inner width, four times the hidden one, is).
"""

from paceline.graph import DType
from paceline.weave.language import AllReduce, Dropout, MatMul, program, scalar, tensor
from paceline.weave.layout import Group, Replicated, Sliced
from paceline.weave.program import Program


def epilogue(
    name: str, rows: int, inner: int, hidden: int, group: Group, *, p: float, dtype: DType
) -> Program:
    """out = residual + dropout(all_reduce(x @ weight) + bias), rows = batch times sequence."""
    x = tensor("x", (rows, inner), Sliced(1), group, dtype=dtype)
    weight = tensor("weight", (inner, hidden), Sliced(0), group, dtype=dtype)
    bias = tensor("bias", (hidden,), Replicated(), group, dtype=dtype)
    residual = tensor("residual", (rows, hidden), Replicated(), group, dtype=dtype)
    seed = scalar("seed", group, DType.INT64)
    total = AllReduce(MatMul(x, weight, name="product"), name="total")
    return program(name, residual + Dropout(total + bias, p, seed))


def self_attention(
    rows: int, hidden: int, group: Group, *, p: float = 0.1, dtype: DType = DType.FLOAT32
) -> Program:
    """The output projection of self-attention."""
    return epilogue("self_attention", rows, hidden, hidden, group, p=p, dtype=dtype)


def mlp(
    rows: int, hidden: int, group: Group, *, p: float = 0.1, dtype: DType = DType.FLOAT32
) -> Program:
    """The second product of the MLP."""
    return epilogue("mlp", rows, 4 * hidden, hidden, group, p=p, dtype=dtype)
