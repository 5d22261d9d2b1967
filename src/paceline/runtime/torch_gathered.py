"""FSDP2 modules keep their gathered weights from forward to backward."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from paceline.runtime.exchange import ExchangeError
from paceline.runtime.torch_param_groups import param_groups
from paceline.runtime.torch_sharded import sharded_modules


@contextmanager
def gathered(model: Any) -> Iterator[None]:
    """Until the context is left, which gives every module its own choice back."""
    modules = sharded_modules(model)
    if not modules:
        raise ExchangeError(
            "this job has no module that FSDP2 (fully_shard) cut up, so its weights are whole; "
            "leave keep_gathered out"
        )
    before = [_choice(module) for module in modules]
    for module in modules:
        module.set_reshard_after_forward(False, recurse=False)
    try:
        yield
    finally:
        for module, (automatic, places) in zip(modules, before):
            state = module._get_fsdp_state()
            state._auto_reshard_after_forward = automatic
            for group, place in zip(param_groups(state), places):
                group.post_forward_mesh_info = place


def _choice(module: Any) -> tuple[Any, list[Any]]:
    """Whether torch chooses, and what each group of its parameters goes back to."""
    state = module._get_fsdp_state()
    homes = [group.post_forward_mesh_info for group in param_groups(state)]
    return state._auto_reshard_after_forward, homes
