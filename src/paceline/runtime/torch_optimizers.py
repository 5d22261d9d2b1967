"""What may be asked of optimizers that read and write one parameter at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from paceline.runtime.exchange import ExchangeError

PER_PARAMETER = "SGD Adam AdamW Adamax NAdam RAdam RMSprop Adagrad Adadelta".split()
"""Of torch's own; looked up when asked, for this file is imported while torch still is."""


def require_per_parameter(optimizer: Any) -> None:
    kind = type(optimizer)
    if kind not in [getattr(torch.optim, name) for name in PER_PARAMETER]:
        raise ExchangeError(
            f"{kind.__name__} may read all gradients at once, so parameters cannot be updated one "
            f"by one; known not to are {', '.join(PER_PARAMETER)}"
        )
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise ExchangeError(
            "the optimizer has hooks of its own on its steps, which would see weights before they "
            "are all updated; take them out of the script, or the change of its update out of the "
            "plan"
        )


@contextmanager
def only(
    optimizer: Any, wanted: set[int], settings: list[dict[str, Any]] | None = None
) -> Iterator[None]:
    """The optimizer with these parameters (by `id`) alone, and with these settings."""
    before = [dict(group) for group in optimizer.param_groups]
    try:
        for group, given in zip(optimizer.param_groups, settings or [{} for _ in before]):
            group.update(given)
            group["params"] = [p for p in group["params"] if id(p) in wanted]
        yield
    finally:
        for group, whole in zip(optimizer.param_groups, before):
            group.clear()
            group.update(whole)
