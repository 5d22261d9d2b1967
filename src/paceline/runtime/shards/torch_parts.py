"""The script's tensors as this rank's parts of them, and whole again in the end.

The optimizer trains FSDP2's tensors, with its state and the gradients cut like them. A parameter
that the script holds itself stands for its part meanwhile: what is done to it is done to the part.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Shard
from torch.utils._pytree import tree_map_only

from paceline.runtime.shards.torch_blocks import Plain

Held = Mapping[str, Any]
"""What belongs to one parameter: its weight, its gradient, the optimizer's state."""


@contextmanager
def in_parts(job: Plain, groups: Sequence[Any], mesh: Any) -> Iterator[list[DTensor]]:
    """The parts, by parameter. Left by an error, all is as it was before: others may not be there
    to gather what was learnt. So that is kept, in a file rather than in the memory that parts
    save."""
    with TemporaryFile() as file:
        before = [_held(job.optimizer, tensor) for tensor in job.tensors]
        torch.save((before, list(job.model.buffers())), file)
        del before
        parts = _parts(job, groups)
        for tensor, part in zip(job.tensors, parts):
            part.grad = None if tensor.grad is None else cut(tensor.grad, mesh)
            state = job.optimizer.state.get(tensor, {})
            _train(job.optimizer, tensor, part, state_in_parts(tensor, state, mesh))
            _stand(tensor, part)
        try:
            yield parts
        except BaseException:
            _reshard(groups)
            file.seek(0)
            held, buffers = torch.load(file, weights_only=True)
            _give_back(job, parts, held)
            for buffer, kept in zip(job.model.buffers(), buffers):
                buffer.copy_(kept)
            raise
        _reshard(groups)
        _give_back(job, parts, (whole(_held(job.optimizer, part)) for part in parts))


def cut(tensor: torch.Tensor, mesh: Any) -> DTensor:
    """This rank's part of what all ranks hold, without a word to them."""
    every, place = tensor.detach().chunk(mesh.size()), mesh.get_local_rank()
    mine = every[place] if place < len(every) else tensor.detach()[:0]
    own = mine.clone(memory_format=torch.contiguous_format)
    return DTensor.from_local(
        own, mesh, [Shard(0)], run_check=False, shape=tensor.shape, stride=tensor.stride()
    )


def whole(value: Any) -> Any:
    """Parts in it gathered; all ranks come here."""
    return tree_map_only(DTensor, lambda part: part.full_tensor(), value)


def state_in_parts(tensor: Any, state: Mapping[str, Any], mesh: Any) -> dict[str, Any]:
    """Those tensors of an optimizer's state that are as large as the parameter, cut like it."""
    return {
        name: cut(value, mesh)
        if isinstance(value, torch.Tensor) and value.shape == tensor.shape
        else value
        for name, value in state.items()
    }


class StandIn(nn.Parameter):  # type: ignore[misc]
    """A parameter of the script whose part is trained in its place."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map_only(cls, lambda one: vars(one)["part"], (args, kwargs or {}))
        return func(*args, **kwargs)


def _parts(job: Plain, groups: Sequence[Any]) -> list[DTensor]:
    found = {}
    for group in groups:
        for each in group.fsdp_params:
            place = id(each._module_info.module), each._module_info.param_name
            found[id(job.places[place])] = each.sharded_param
    return [found[id(tensor)] for tensor in job.tensors]


def _held(optimizer: Any, tensor: Any) -> Held:
    state = dict(optimizer.state.get(tensor, {}))
    return {"weight": tensor.detach(), "gradient": tensor.grad, "state": state}


def _train(optimizer: Any, old: Any, new: Any, state: Mapping[str, Any]) -> None:
    """The optimizer trains the new tensor in the old one's place."""
    for group in optimizer.param_groups:
        group["params"] = [new if each is old else each for each in group["params"]]
    optimizer.state.pop(old, None)
    if state:
        optimizer.state[new] = state


def _stand(tensor: Any, part: Any) -> None:
    vars(part).update(vars(tensor))  # what the script noted on it
    tensor.grad = None
    tensor.data = tensor.detach().new_empty(0)
    vars(tensor)["part"] = part
    tensor.__class__ = StandIn


def _give_back(job: Plain, parts: Sequence[Any], held: Iterable[Held]) -> None:
    for tensor, part, kept in zip(job.tensors, parts, held):
        tensor.__class__ = nn.Parameter
        del vars(tensor)["part"]
        tensor.data = kept["weight"]
        tensor.grad = kept["gradient"]
        tensor.requires_grad_(part.requires_grad)
        _train(job.optimizer, part, tensor, kept["state"])


def _reshard(groups: Sequence[Any]) -> None:
    for group in groups:
        group._to_sharded()
