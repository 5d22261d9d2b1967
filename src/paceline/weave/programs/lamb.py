"""LAMB, data parallel (You et al. 2020, algorithm 2, with Adam's bias correction and eps).

Two passes: the first updates the moments and takes the norms of weights and direction of each
tensor; the norms, two numbers a tensor, are joined across ranks; the second applies the step.
`segments` are the lengths of the parameter tensors in the flat vector.
"""

from paceline.graph import DType
from paceline.weave.language import (
    AllReduce,
    Cast,
    Ite,
    MulAdd,
    Norm,
    Repeat,
    Sqrt,
    Update,
    program,
    scalar,
    tensor,
)
from paceline.weave.layout import Group, Partial, Replicated
from paceline.weave.ops import Role
from paceline.weave.program import Program
from paceline.weave.programs.clip import MaxNorm, clipped


def lamb(
    segments: tuple[int, ...],
    group: Group,
    *,
    dtype: DType = DType.FLOAT32,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-6,
    decay: float = 0.01,
    max_norm: MaxNorm = None,
) -> Program:
    """One step. Inputs: g, w, m, v, and the numbers lr and t (the step, from 1)."""
    (beta1, beta2), shape = betas, (sum(segments),)
    g = tensor("g", shape, Partial(), group, dtype=dtype, role=Role.GRADIENT)
    w = tensor("w", shape, Replicated(), group, dtype=dtype, role=Role.PARAMETER)
    m = tensor("m", shape, Replicated(), group, dtype=dtype, role=Role.STATE)
    v = tensor("v", shape, Replicated(), group, dtype=dtype, role=Role.STATE)
    lr, t = scalar("lr", group), scalar("t", group)

    gradient = clipped(AllReduce(g, name="sum_g") / group.size, max_norm)
    m1 = Update(m, MulAdd(1 - beta1, gradient, beta1 * m), name="m1")
    v1 = Update(v, MulAdd((1 - beta2) * gradient, gradient, beta2 * v), name="v1")
    adam = (m1 / (1 - beta1**t)) / (Sqrt(v1 / (1 - beta2**t)) + eps)
    direction = MulAdd(decay, w, adam)
    norm_w, norm_d = Norm(w, segments=segments), Norm(direction, segments=segments)
    trust = Ite(norm_w > 0.0, Ite(norm_d > 0.0, norm_w / norm_d, 1.0), 1.0)
    back = Repeat(Cast(-lr * trust, dtype), segments)
    return program("lamb", Update(w, MulAdd(back, direction, w), name="w1"), m1, v1)
