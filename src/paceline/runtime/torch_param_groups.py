"""The groups of parameters that FSDP2 gathers of a module at once, whichever torch is at hand."""

from typing import Any


def param_groups(state: Any) -> list[Any]:
    """Of a module's state. Until torch 2.12 a module has one group, or none."""
    if hasattr(state, "_fsdp_param_groups"):
        return list(state._fsdp_param_groups)
    only = state._fsdp_param_group
    return [] if only is None else [only]
