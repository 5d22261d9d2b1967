"""FSDP2's modules of a live model, and the model without them again, which torch does not offer."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from paceline.runtime.shards.torch_blocks import Plain
from paceline.runtime.torch_param_groups import param_groups


@contextmanager
def wrapped(job: Plain, mesh: Any) -> Iterator[list[Any]]:
    """Each block, then the model; yields the groups of parameters, one for each gather. Leaving
    takes off what was put on, and gives back no weights."""
    from torch.distributed.fsdp import fully_shard

    with ExitStack() as stack:
        stack.callback(_hang, _tensors_in(job.model))
        for module in (*job.blocks, job.model):
            stack.enter_context(_own_results(module))
            stack.callback(_unwrap, module)
            fully_shard(module, mesh=mesh, ignored_params=job.fixed)
        yield [group for m in (*job.blocks, job.model) for group in groups_of(m)]


def groups_of(module: Any) -> list[Any]:
    return param_groups(module._get_fsdp_state())


def parts_of(job: Plain, groups: Iterable[Any]) -> list[Any]:
    """By tensor of the job: the part of it that this rank's FSDP2 module trains."""
    found = {}
    for group in groups:
        for each in group.fsdp_params:
            place = id(each._module_info.module), each._module_info.param_name
            found[id(job.places[place])] = each.sharded_param
    return [found[id(tensor)] for tensor in job.tensors]


def part_of(group: Any) -> torch.Tensor:
    """What this rank gives of a group's weights, as they are gathered."""
    return torch.cat([each._sharded_param_data for each in group.fsdp_params]).detach()


def resharded(groups: Iterable[Any]) -> None:
    for group in groups:
        group._to_sharded()


@contextmanager
def _own_results(module: Any) -> Iterator[None]:
    """A block whose result is a view gives a copy: a script that adds to a view in place would drop
    the hook by which FSDP2 gathers the block again."""
    hook = module.register_forward_hook(
        lambda _module, _given, result: tree_map_only(torch.Tensor, _not_a_view, result)
    )
    try:
        yield
    finally:
        hook.remove()


def _not_a_view(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone() if tensor.requires_grad and tensor._base is not None else tensor


def _tensors_in(module: Any) -> list[tuple[Any, str, Any]]:
    """Where each tensor hangs."""
    return [
        (owner, name, tensor)
        for owner in module.modules()
        for name, tensor in owner._parameters.items()
    ]


def _hang(before: list[tuple[Any, str, Any]]) -> None:
    for owner, name, tensor in before:
        owner._parameters[name] = tensor
        if tensor is not None:
            vars(tensor).pop("_fsdp_orig_uid", None)


def _unwrap(module: Any) -> None:
    """Also a module that torch refused halfway."""
    from torch.distributed._composable.contract import REGISTRY_KEY, STATE_KEY
    from torch.distributed._composable_state import _module_state_mapping
    from torch.distributed.fsdp import FSDPModule, fully_shard

    state = _taken(module, STATE_KEY, fully_shard.__wrapped__)
    _taken(module, REGISTRY_KEY, fully_shard.__name__)
    _module_state_mapping.pop(module, None)
    for handle in _handles(state):
        handle.remove()
    if isinstance(module, FSDPModule):
        module.__class__ = type(module).__mro__[FSDPModule._orig_cls_mro_index]
    for owner in module.modules():
        for mark in ("_is_fsdp_managed_module", "_fsdp_use_orig_params"):
            vars(owner).pop(mark, None)


def _taken(module: Any, notes: str, key: Any) -> Any:
    """Out of a module's notes, which go where nothing else is in them."""
    kept = vars(module).get(notes, {})
    found = kept.pop(key, None)
    if not kept:
        vars(module).pop(notes, None)
    return found


def _handles(state: Any) -> Iterator[Any]:
    if state is None:
        return
    for name in ("_pre_forward_hook_handle", "_post_forward_hook_handle"):
        if hasattr(state, name):
            yield getattr(state, name)
    for group in param_groups(state):
        yield from group._module_to_pre_save_state_dict_hook_handle.values()
        yield from group._module_to_pre_load_state_dict_hook_handle.values()
        yield from (each._post_load_hook_handle for each in group.fsdp_params)
