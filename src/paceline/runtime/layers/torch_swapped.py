"""Put structured layers into a live job, and dense ones back in the end.

Each chosen layer is replaced in its parent; the optimizer trains the new tensors from fresh
state; DDP's reducer is built anew. Leaving folds what was trained into the very weights that the
job began with, whose optimizer state is put back as it was. Checkpoints taken meanwhile are dense:
the model's by the layers themselves, the optimizer's by leaving out state of what it replaced.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from paceline.record.torch_facts import clean_path
from paceline.runtime.layers.remaking import LayerError, Remaking
from paceline.runtime.layers.torch_structured import (
    Structured,
    StructuredConv2d,
    StructuredLinear,
)
from paceline.runtime.run import Run
from paceline.runtime.torch_optimizers import updates_a_part
from paceline.runtime.torch_reducer import rebuilt

Fits = Callable[[str, tuple[int, ...]], bool]
"""Of a layer's name and its weight's shape: whether it is made anew."""


@dataclass(frozen=True)
class _Place:
    """A layer and where it hangs."""

    parent: nn.Module
    name: str
    layer: Any  # a linear one or a convolution

    @property
    def weight(self) -> nn.Parameter:
        weight: nn.Parameter = self.layer.weight
        return weight


@contextmanager
def swapped(run: Run, remaking: Remaking, fits: Fits) -> Iterator[None]:
    """The fitting layers made anew, until the context is left."""
    _require_whole(run.optimizer)
    places = _places(run, fits)
    with torch.no_grad():
        layers = [_KINDS[type(p.layer)](p.layer, remaking.make) for p in places]
    with ExitStack() as stack:
        stack.callback(_rebuild, run)
        for place, layer in zip(places, layers):
            stack.enter_context(_hung(place, layer, remaking))
        stack.enter_context(_trained(run.optimizer, places, layers))
        _agree(run, layers)
        _rebuild(run)
        yield


def _require_whole(optimizer: Any) -> None:
    """ZeRO keeps lists of its own of who updates which tensor."""
    if updates_a_part(optimizer):
        raise LayerError(
            "layers cannot be made anew under ZeroRedundancyOptimizer, which has already shared "
            "out the tensors; take a plain optimizer, or leave the strategy out"
        )


def _places(run: Run, fits: Fits) -> list[_Place]:
    """The layers of the model that are trained, belong to one place and fit."""
    trained = {id(p) for group in run.optimizer.param_groups for p in group["params"]}
    owners: dict[int, int] = {}
    for module in run.model.modules():
        for tensor in module.parameters(recurse=False):
            owners[id(tensor)] = owners.get(id(tensor), 0) + 1
    found = [
        (clean_path(f"{path}.{name}" if path else name), _Place(parent, name, child))
        for path, parent in run.model.named_modules()
        for name, child in parent.named_children()
        if _is_plain(child)
    ]
    places = [
        place
        for layer, place in found
        if fits(layer, tuple(place.weight.shape))
        and id(place.weight) in trained
        and owners[id(place.weight)] == 1
    ]
    if not places:
        shown = ", ".join(f"{name} {tuple(p.weight.shape)}" for name, p in found[:6]) or "none"
        raise LayerError(
            f"no layer of this model can be made anew by these settings; it has {shown}. Layers "
            "must be plain nn.Linear, or nn.Conv2d in one group padded with zeros, trained, on "
            "whole tensors that no other layer shares"
        )
    return places


def _is_plain(layer: nn.Module) -> bool:
    if type(layer) is nn.Conv2d and (layer.groups > 1 or layer.padding_mode != "zeros"):
        return False
    return type(layer) in _KINDS and type(layer.weight) is nn.Parameter


_KINDS: dict[type[nn.Module], Callable[..., Structured]] = {
    nn.Linear: StructuredLinear,
    nn.Conv2d: StructuredConv2d,
}


@contextmanager
def _hung(place: _Place, layer: Structured, remaking: Remaking) -> Iterator[None]:
    """The layer in the dense one's place; what it learnt goes into its weight."""
    setattr(place.parent, place.name, layer)
    try:
        yield
    finally:
        setattr(place.parent, place.name, place.layer)
        place.layer.train(layer.training)
        with torch.no_grad():
            place.weight.copy_(remaking.settle(layer.structure.dense()))
        place.weight.grad = None


@contextmanager
def _trained(optimizer: Any, places: list[_Place], layers: list[Structured]) -> Iterator[None]:
    """The optimizer trains the layers' tensors in place of the dense weights."""
    instead = {
        id(place.weight): list(layer.structure.parameters()) for place, layer in zip(places, layers)
    }
    before = [list(group["params"]) for group in optimizer.param_groups]
    kept = {p: optimizer.state.pop(p, None) for ps in before for p in ps if id(p) in instead}
    for group, old in zip(optimizer.param_groups, before):
        group["params"] = [new for p in old for new in instead.get(id(p), [p])]
    hook = optimizer.register_state_dict_post_hook(_Dense(before, instead))
    try:
        yield
    finally:
        hook.remove()
        for tensors in instead.values():
            for tensor in tensors:
                optimizer.state.pop(tensor, None)
        for group, old in zip(optimizer.param_groups, before):
            group["params"] = old
        optimizer.state.update({p: state for p, state in kept.items() if state})


class _Dense:
    """An optimizer's checkpoint as of the dense model, without state of what was made anew."""

    def __init__(self, groups: list[list[Tensor]], instead: dict[int, list[nn.Parameter]]) -> None:
        self._groups, self._instead = groups, instead

    def __call__(self, _: Any, state: dict[str, Any]) -> dict[str, Any]:
        """Torch numbers parameters over all groups in turn."""
        numbers: dict[int, int] = {}
        old = new = 0
        groups = []
        for group, told in zip(self._groups, state["param_groups"]):
            groups.append({**told, "params": list(range(old, old + len(group)))})
            for tensor in group:
                made = self._instead.get(id(tensor))
                if made is None:
                    numbers[new] = old
                new += 1 if made is None else len(made)
                old += 1
        kept = {numbers[key]: value for key, value in state["state"].items() if key in numbers}
        return {**state, "state": kept, "param_groups": groups}


def _agree(run: Run, layers: list[Structured]) -> None:
    """Ranks begin with the tensors of the first, for machines may round apart."""
    for replica in run.replicas:
        mine = {id(p) for p in replica.parameters()}
        first = dist.get_global_rank(replica.process_group, 0)
        for layer in layers:
            for tensor in layer.structure.parameters():
                if id(tensor) in mine:
                    dist.broadcast(tensor.data, first, group=replica.process_group)


def _rebuild(run: Run) -> None:
    for replica in run.replicas:
        rebuilt(replica)
