"""Gradient clipping by global norm: inside a step, or by a norm that the caller is given first.

`clipped` is `torch.nn.utils.clip_grad_norm_` on one vector that holds every gradient, as part of a
step's program. Where the norm must be known before the step, `gradient_norm` computes it and the
step takes the factor as a number. None of them writes a clipped gradient to memory.
"""

from enum import Enum

from paceline.weave.language import AllReduce, Minimum, Norm, Tensor, program, scalar, tensor
from paceline.weave.layout import Group, Partial
from paceline.weave.ops import Role
from paceline.weave.program import Program

EPSILON = 1e-6
"""What torch adds to the norm before it divides by it."""


class Clipping(Enum):
    """Clipping by a norm that is known already."""

    BY_FACTOR = "scale"  # the number by which a step multiplies its gradient


MaxNorm = float | Clipping | None


def clipped(gradient: Tensor, max_norm: MaxNorm) -> Tensor:
    """The gradient, scaled so that its norm is `max_norm` at most, or by the number `scale`; None
    leaves it."""
    if max_norm is None:
        return gradient
    if isinstance(max_norm, Clipping):
        assert gradient.type.group is not None
        return gradient * scalar(max_norm.value, gradient.type.group)
    return gradient * Minimum(max_norm / (Norm(gradient) + EPSILON), 1.0)


def factor(norm: float, max_norm: float) -> float:
    """What a gradient of this norm is multiplied by; nothing is ever enlarged."""
    return min(max_norm / (norm + EPSILON), 1.0)


def gradient_norm(size: int, group: Group) -> Program:
    """The norm of the averaged gradient. Input: g."""
    return program("gradient_norm", Norm(_mean(size, group)))


def gradient_mean(size: int, group: Group) -> Program:
    """The averaged gradient on every rank. Inputs: g, and the number `scale`."""
    return program("gradient_mean", clipped(_mean(size, group), Clipping.BY_FACTOR))


def _mean(size: int, group: Group) -> Tensor:
    g = tensor("g", (size,), Partial(), group, role=Role.GRADIENT)
    return AllReduce(g, name="sum_g") / group.size
