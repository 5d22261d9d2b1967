"""The script's tensors as this rank's parts of them, and whole again in the end.

The optimizer trains the parts, with its state and the gradients cut like them. A parameter that the
script holds itself stands for its part meanwhile: what is done to it is done to the part.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Shard
from torch.utils._pytree import tree_map_only

from paceline.runtime.parts.torch_cuttable import Trained

Held = Mapping[str, Any]
"""What belongs to one parameter: its weight, its gradient, the optimizer's state."""


@contextmanager
def in_parts(
    job: Trained, parts: Sequence[DTensor | None], ended: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """`parts` are by tensor of the job, None for one that stays whole; `ended` is called before
    they become whole again. Left by an error, all is as it was before: others may not be there to
    gather what was learnt. So that is kept, in a file rather than in the memory that parts save."""
    with TemporaryFile() as file:
        before = [_held(job.optimizer, tensor) for tensor in job.tensors]
        torch.save((before, list(job.model.buffers())), file)
        del before
        pieces = [(t, part) for t, part in zip(job.tensors, parts) if part is not None]
        for tensor, part in pieces:
            part.grad = None if tensor.grad is None else like(part, tensor.grad)
            state = job.optimizer.state.get(tensor, {})
            _train(job.optimizer, tensor, part, state_in_parts(part, state))
            _stand(tensor, part)
        try:
            yield
        except BaseException:
            ended()
            file.seek(0)
            held, buffers = torch.load(file, weights_only=True)
            for tensor, part, kept in zip(job.tensors, parts, held):
                _give_back(job.optimizer, tensor, part, kept)
            for buffer, kept in zip(job.model.buffers(), buffers):
                buffer.copy_(kept)
            raise
        ended()
        for tensor, part in pieces:
            _give_back(job.optimizer, tensor, part, whole(_held(job.optimizer, part)))


def cut(tensor: torch.Tensor, mesh: Any, dim: int = 0) -> DTensor:
    """This rank's part of what all ranks hold, without a word to them."""
    every, place = tensor.detach().chunk(mesh.size(), dim), mesh.get_local_rank()
    mine = every[place] if place < len(every) else tensor.detach().narrow(dim, 0, 0)
    own = mine.clone(memory_format=torch.contiguous_format)
    return DTensor.from_local(
        own, mesh, [Shard(dim)], run_check=False, shape=tensor.shape, stride=tensor.stride()
    )


def dim_of(part: DTensor) -> int:
    """In which dimension it is cut."""
    (placement,) = part.placements
    found: int = placement.dim
    return found


def like(part: DTensor, tensor: torch.Tensor) -> DTensor:
    """A tensor of the same shape, cut in the same way."""
    return cut(tensor, part.device_mesh, dim_of(part))


def whole(value: Any) -> Any:
    """Parts in it gathered; all ranks come here."""
    return tree_map_only(DTensor, lambda part: part.full_tensor(), value)


def state_in_parts(part: DTensor, state: Mapping[str, Any]) -> dict[str, Any]:
    """Those tensors of an optimizer's state that are as large as the parameter, cut like it."""
    return {
        name: like(part, value)
        if isinstance(value, torch.Tensor) and value.shape == part.shape
        else value
        for name, value in state.items()
    }


class StandIn(nn.Parameter):  # type: ignore[misc]
    """A parameter of the script whose part is trained in its place."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map_only(cls, lambda one: vars(one)["part"], (args, kwargs or {}))
        return func(*args, **kwargs)


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


def _give_back(optimizer: Any, tensor: Any, part: DTensor | None, kept: Held) -> None:
    if part is not None:
        tensor.__class__ = nn.Parameter
        del vars(tensor)["part"]
        tensor.requires_grad_(part.requires_grad)
    tensor.data = kept["weight"]
    tensor.grad = kept["gradient"]
    _train(optimizer, tensor if part is None else part, tensor, kept["state"])
