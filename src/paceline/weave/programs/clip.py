"""Gradient clipping by global norm, as part of a step: no pass of its own over the gradient.

`torch.nn.utils.clip_grad_norm_` on one vector that holds every gradient.
"""

from paceline.weave.language import Minimum, Norm, Tensor


def clipped(gradient: Tensor, max_norm: float | None) -> Tensor:
    """The gradient, scaled so that its norm is `max_norm` at most; None leaves it."""
    if max_norm is None:
        return gradient
    return gradient * Minimum(max_norm / (Norm(gradient) + 1e-6), 1.0)
