"""SGD with momentum, data parallel, with torch.optim's order and rounding of operations
(dampening 0)."""

from paceline.graph import DType
from paceline.weave.language import AllReduce, MulAdd, Tensor, Update, program, scalar, tensor
from paceline.weave.layout import Group, Partial, Replicated
from paceline.weave.ops import Role
from paceline.weave.program import Program
from paceline.weave.programs.clip import MaxNorm, clipped


def sgd(
    size: int,
    group: Group,
    *,
    dtype: DType = DType.FLOAT32,
    momentum: float = 0.0,
    decay: float = 0.0,
    nesterov: bool = False,
    max_norm: MaxNorm = None,
) -> Program:
    """One step. Inputs: g, w, the number lr, and with momentum its buffer m (zero at first)."""
    g = tensor("g", (size,), Partial(), group, dtype=dtype, role=Role.GRADIENT)
    w = tensor("w", (size,), Replicated(), group, dtype=dtype, role=Role.PARAMETER)
    lr = scalar("lr", group)

    direction = clipped(AllReduce(g, name="sum_g") / group.size, max_norm)
    if decay:
        direction = MulAdd(decay, w, direction)
    updates: list[Tensor] = []
    if momentum:
        m = tensor("m", (size,), Replicated(), group, dtype=dtype, role=Role.STATE)
        m1 = Update(m, momentum * m + direction, name="m1")
        direction = MulAdd(momentum, m1, direction) if nesterov else m1
        updates = [m1]
    return program("sgd", Update(w, MulAdd(-lr, direction, w), name="w1"), *updates)
