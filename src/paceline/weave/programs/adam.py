"""Adam and AdamW, data parallel: gradients averaged over the group, state replicated.

Kingma and Ba 2015, with bias correction, eps outside the root, and torch.optim's order and
rounding of operations: after many steps the state is still torch's. Loshchilov and Hutter 2019 for
the decoupled decay of AdamW.
"""

from paceline.graph import DType
from paceline.weave.language import (
    AllReduce,
    MulAdd,
    Sqrt,
    Tensor,
    Update,
    program,
    scalar,
    tensor,
)
from paceline.weave.layout import Group, Partial, Replicated
from paceline.weave.ops import Role
from paceline.weave.program import Program
from paceline.weave.programs.clip import MaxNorm, clipped


def adam(
    size: int,
    group: Group,
    *,
    dtype: DType = DType.FLOAT32,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    decay: float = 0.0,
    decoupled: bool = False,
    max_norm: MaxNorm = None,
) -> Program:
    """One step. Inputs: g, w, m, v, and the numbers lr and t (the step, from 1).
    With `max_norm` the averaged gradient is clipped by its global norm first."""
    beta1, beta2 = betas
    g = tensor("g", (size,), Partial(), group, dtype=dtype, role=Role.GRADIENT)
    w = tensor("w", (size,), Replicated(), group, dtype=dtype, role=Role.PARAMETER)
    m = tensor("m", (size,), Replicated(), group, dtype=dtype, role=Role.STATE)
    v = tensor("v", (size,), Replicated(), group, dtype=dtype, role=Role.STATE)
    lr, t = scalar("lr", group), scalar("t", group)

    gradient = clipped(AllReduce(g, name="sum_g") / group.size, max_norm)
    start = w * (1 - lr * decay) if decay and decoupled else w
    if decay and not decoupled:
        gradient = MulAdd(decay, w, gradient)
    m1 = Update(m, lerp(m, gradient, 1 - beta1), name="m1")
    v1 = Update(v, MulAdd((1 - beta2) * gradient, gradient, beta2 * v), name="v1")
    root = Sqrt(v1) / Sqrt(1 - beta2**t) + eps
    w1 = Update(w, start - lr / (1 - beta1**t) * m1 / root, name="w1")
    return program("adamw" if decoupled else "adam", w1, m1, v1)


def lerp(start: Tensor, end: Tensor, weight: float) -> Tensor:
    """start + weight (end - start), from the nearer end: as torch's lerp rounds."""
    near, share = (start, weight) if abs(weight) < 0.5 else (end, weight - 1)
    return MulAdd(share, end - start, near)


def adamw(size: int, group: Group, *, decay: float = 0.01, dtype: DType = DType.FLOAT32) -> Program:
    """Adam with decoupled weight decay."""
    return adam(size, group, dtype=dtype, decay=decay, decoupled=True)
