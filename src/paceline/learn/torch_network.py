"""`NetworkLearner`: a torch module as a learner, its tensors views of one flat vector.

A module with `blocks` and `heads` (two `ModuleList`s of equal length) can grow: stage s is blocks 0
to s and head s. Kernels must answer alike on every worker: train with one thread each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from paceline.learn.errors import LearnError
from paceline.learn.learner import Gradient, TensorSpan
from paceline.learn.samples import Rows, Samples, Vector

_JUDGED_AT_ONCE = 500


@dataclass(frozen=True)
class Cost:
    """Multiplications of a sample, up to each stage."""

    by_stage: tuple[float, ...]


class NetworkLearner:
    """`made(seed)` builds the module; data stay where they are."""

    def __init__(self, made: Any, train: Samples, test: Samples) -> None:
        self._made, self._module = made, made(0)
        self._train, self._test = _tensors(train), _tensors(test)
        self.layers, self.trained, self.size = _laid_out(self._module)
        self._flat = torch.zeros(self.size)
        self._slope = torch.zeros(self.trained)
        _bind(self._module, self.layers, self._flat, self._slope)
        self._weights: Vector = self._flat.numpy()
        self.stages = len(self._module.blocks) if _grows(self._module) else 1
        self._cost = self._costs()

    def start(self, seed: int) -> Vector:
        module = self._made(seed)
        parts = [tensor.detach().reshape(-1).float() for _, tensor in _named(module)]
        found: Vector = torch.cat(parts).numpy()
        return found

    def gradient(self, weights: Vector, rows: Rows, stage: int | None = None) -> Gradient:
        self._weights[:] = weights
        self._slope.zero_()
        self._module.train()
        inputs, labels = (part[torch.from_numpy(rows)] for part in self._train)
        loss = nn.functional.cross_entropy(self._answer(inputs, stage), labels)
        loss.backward()
        weights[self.trained :] = self._weights[self.trained :]
        return Gradient(self._slope.numpy().copy(), float(loss.detach()))

    def right(self, weights: Vector, rows: Rows | None = None, stage: int | None = None) -> float:
        self._weights[:] = weights
        self._module.eval()
        inputs, labels = self._test
        if rows is not None:
            inputs, labels = (part[torch.from_numpy(rows)] for part in self._train)
        with torch.no_grad():
            right = [
                (self._answer(some, stage).argmax(1) == wanted).sum()
                for some, wanted in zip(
                    inputs.split(_JUDGED_AT_ONCE), labels.split(_JUDGED_AT_ONCE)
                )
            ]
        return float(sum(right)) / len(labels)

    def arithmetic(self, stage: int | None = None) -> float:
        costs = self._cost.by_stage
        return 1.0 if stage is None else costs[stage] / costs[-1]

    def _answer(self, inputs: Tensor, stage: int | None) -> Tensor:
        if self.stages == 1:
            return self._module(inputs)
        return self._module(inputs, self.stages - 1 if stage is None else stage)

    def _costs(self) -> Cost:
        """Counted on one sample's way through the module."""
        inputs, found = self._train[0][:1], []
        self._module.eval()
        for stage in range(self.stages):
            count = [0.0]
            hooks = [
                layer.register_forward_hook(_counting(count))
                for layer in self._module.modules()
                if isinstance(layer, nn.Conv2d | nn.Linear)
            ]
            with torch.no_grad():
                self._answer(inputs, stage)
            for hook in hooks:
                hook.remove()
            found.append(count[0])
        return Cost(tuple(found))


def _counting(count: list[float]) -> Any:
    def hook(layer: nn.Module, _: Any, output: Tensor) -> None:
        each = layer.weight[0].numel()
        count[0] += each * output.numel()

    return hook


def _tensors(samples: Samples) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(samples.inputs), torch.from_numpy(samples.labels)


def _grows(module: Any) -> bool:
    return isinstance(getattr(module, "blocks", None), nn.ModuleList)


def _named(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Trained tensors, then statistics. Counts of batches are neither."""
    yield from module.named_parameters()
    yield from ((n, b) for n, b in module.named_buffers() if b.is_floating_point())


def _laid_out(module: nn.Module) -> tuple[Sequence[TensorSpan], int, int]:
    layers, at = [], 0
    for name, tensor in _named(module):
        if tensor.is_floating_point() and tensor.dtype is not torch.float32:
            raise LearnError(f"{name} is {tensor.dtype}; clients train float32 alone")
        stage, head = _stage(name)
        layers.append(TensorSpan(name, at, tuple(tensor.shape), stage, head))
        at += tensor.numel()
    trained = sum(parameter.numel() for parameter in module.parameters())
    return tuple(layers), trained, at


def _stage(name: str) -> tuple[int, bool]:
    """`blocks.2.0.weight` belongs to stage 2, `heads.1.weight` is the head of stage 1."""
    where, _, rest = name.partition(".")
    number = rest.partition(".")[0]
    if where not in ("blocks", "heads") or not number.isdigit():
        return 0, False
    return int(number), where == "heads"


def _bind(module: nn.Module, layers: Sequence[TensorSpan], flat: Tensor, slope: Tensor) -> None:
    """The module's tensors become views, so that nothing is copied tensor by tensor."""
    tensors = dict(_named(module))
    for layer in layers:
        tensor = tensors[layer.name]
        flat[layer.place] = tensor.detach().reshape(-1)
        tensor.data = flat[layer.place].view(layer.shape)
        if isinstance(tensor, nn.Parameter):
            tensor.grad = slope[layer.place].view(layer.shape)
