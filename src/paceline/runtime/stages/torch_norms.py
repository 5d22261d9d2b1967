"""`torch.nn.utils.clip_grad_norm_` of a model whose weights lie on several workers: by the norm of
all of them together. A script may have imported the function long before; what that calls changes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.utils import clip_grad

from paceline.runtime.exchange import ExchangeError

NORM, CLIP = "_get_total_norm", "_clip_grads_with_norm_"


@contextmanager
def never_clipped(mine: Callable[[], Sequence[Tensor]]) -> Iterator[None]:
    """Where gradients are not there when the script would clip them."""
    original = getattr(clip_grad, CLIP, None)

    def clip(parameters: Any, *given: Any, **named: Any) -> Any:
        every = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        if set(map(id, every)) & set(map(id, mine())):
            raise ExchangeError(
                "the script clips its gradients, and under 2bw they come behind its update; take "
                "another schedule"
            )
        return None if original is None else original(every, *given, **named)

    setattr(clip_grad, CLIP, clip)
    try:
        yield
    finally:
        setattr(clip_grad, CLIP, original)


@contextmanager
def norms_over(group: Any, mine: Callable[[], Sequence[Tensor]]) -> Iterator[None]:
    """`mine` are the weights that this worker of the group holds, and no other."""
    original = getattr(clip_grad, NORM, None)
    if original is None:
        raise ExchangeError(
            f"torch {torch.__version__} takes norms of gradients in one piece, so that those of "
            "stages cannot be joined; take torch 2.13, or leave pipeline out"
        )

    def norm(
        tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
    ) -> Tensor:
        every = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        known = {id(weight.grad) for weight in mine() if weight.grad is not None}
        held = [each for each in every if id(each) in known]
        if not held:
            found: Tensor = original(every, norm_type, error_if_nonfinite, foreach)
            return found
        order = float(norm_type)
        joined = _joined(original(held, order, False, foreach), order, group)
        others = [each for each in every if id(each) not in known]
        if others:
            rest = original(others, order, False, foreach)
            joined = torch.linalg.vector_norm(torch.stack([joined, rest]), order)
        if error_if_nonfinite and not torch.isfinite(joined):
            raise RuntimeError(f"the norm of order {order} of all gradients is not finite")
        return joined

    setattr(clip_grad, NORM, norm)
    try:
        yield
    finally:
        setattr(clip_grad, NORM, original)


def _joined(own: Tensor, order: float, group: Any) -> Tensor:
    if order == float("inf"):
        dist.all_reduce(own, dist.ReduceOp.MAX, group)
        return own
    powers = own**order
    dist.all_reduce(powers, group=group)
    joined: Tensor = powers ** (1 / order)
    return joined
