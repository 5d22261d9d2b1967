"""`PartialGradient`: this worker's part of a gradient, which nobody may take for the average.

Inside `fused_step` gradients are averaged in the step itself. Until then `.grad` holds one worker's
part: autograd adds to it, and it may be cleared; whatever else touches it is an error that says
what to do. Code below Python, autograd's own accumulation among it, is not stopped.
"""

from collections.abc import Callable
from typing import Any

import torch

from paceline.errors import PacelineError


class PartialGradientError(PacelineError):
    """A gradient was read or changed before it was averaged."""


_ALLOWED: frozenset[Any] = frozenset(
    {
        *(getattr(torch.Tensor, name).__get__ for name in ("device", "dtype", "layout", "shape")),
        *(getattr(torch.Tensor, name).__get__ for name in ("grad_fn", "is_leaf", "requires_grad")),
        *(getattr(torch.Tensor, name).__get__ for name in ("is_sparse", "ndim", "_version")),
        torch.Tensor.__hash__,
        torch.Tensor.data_ptr,
        torch.Tensor.detach_,
        torch.Tensor.dim,
        torch.Tensor.is_contiguous,
        torch.Tensor.numel,
        torch.Tensor.requires_grad_,
        torch.Tensor.size,
        torch.Tensor.stride,
        torch.Tensor.zero_,
        torch._foreach_zero_,
    }
)
"""What tells nothing of the values, and what `zero_grad` does."""


class PartialGradient(torch.Tensor):  # type: ignore[misc]
    """A view of a gradient in the arena; `average_gradients` puts an ordinary one in its place."""

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        if func not in _ALLOWED:
            raise PartialGradientError(
                f"{_name(func)} was called on a gradient inside fused_step before it was averaged: "
                "it is this worker's part alone. Call step.average_gradients() on every worker "
                "first (`with fused_step(...) as step`), before GradScaler.unscale_ too. To "
                "clip, call torch.nn.utils.clip_grad_norm_ by its full name: a name that was "
                "imported from there earlier is not replaced"
            )
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


def _name(func: Any) -> str:
    """Of an attribute, its own: the function that reads it is called `__get__`."""
    named = func.__self__ if getattr(func, "__name__", "") == "__get__" else func
    return getattr(named, "__name__", str(func))
