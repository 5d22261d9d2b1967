"""What one detail step tells: which module ran when, which gradient was ready when, whose memory.

These hooks cost microseconds each, so they are in place for a single step.
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from paceline.record.sidecar import Gradient, Layer, Record
from paceline.record.torch_facts import TrainedModel
from paceline.record.torch_memory import Kept, address_of, storages_of


class DetailWatch:
    """Hooks on modules and parameters between `install` and `remove`."""

    def __init__(self, write: Callable[[Record], None], step: int) -> None:
        self._write = write
        self.step = step
        self.kept = Kept()
        self._hooks: list[Any] = []
        self._paths: dict[int, str] = {}
        self._open: list[tuple[Any, int, dict[int, int]]] = []
        self._layers: list[Layer] = []
        self._gradients: list[Gradient] = []

    def install(self, model: TrainedModel) -> None:
        self._paths = model.paths
        self._hooks = self._on_modules(model)
        for index, tensor in enumerate(model.tensors):
            if tensor.requires_grad and tensor.is_leaf:
                hook = self._ready(index)
                self._hooks.append(tensor.register_post_accumulate_grad_hook(hook))
        self.kept.start(model)

    def _on_modules(self, model: TrainedModel) -> list[Any]:
        """Around every module's forward. Where something was compiled, torch would compile it anew
        for hooks of all modules, and the hooks with it; hooks of one module it leaves alone."""
        if "torch._dynamo" not in sys.modules:
            return [
                torch_module.register_module_forward_pre_hook(self._enter),
                torch_module.register_module_forward_hook(self._leave, always_call=True),
            ]
        enter, leave = map(torch.compiler.disable, (self._enter, self._leave))
        before = [module.register_forward_pre_hook(enter) for module in model.modules]
        behind = [m.register_forward_hook(leave, always_call=True) for m in model.modules]
        return [*before, *behind]

    def remove(self) -> None:
        self.kept.stop()
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        for record in (*self._layers, *self._gradients, *self.kept.records()):
            self._write(record)

    def _enter(self, module: torch.nn.Module, inputs: Any) -> None:
        self._open.append((module, time.time_ns(), storages_of(inputs)))

    def _leave(self, module: torch.nn.Module, _: Any, outputs: Any) -> None:
        now = time.time_ns()
        while self._open:
            opened, begin, inputs = self._open.pop()
            if opened is module:
                layer = Layer(
                    module=self._paths.get(id(module), ""),
                    kind=type(module).__name__,
                    thread=threading.get_native_id(),
                    begin_ns=begin,
                    end_ns=now,
                    inputs=inputs,
                    outputs=storages_of(outputs),
                )
                self._layers.append(layer)
                return

    def _ready(self, index: int) -> Callable[[Any], None]:
        def hook(tensor: Any) -> None:
            self.kept.gradient(index, tensor)
            self._gradients.append(
                Gradient(
                    parameter=index,
                    step=self.step,
                    ready_ns=time.time_ns(),
                    thread=threading.get_native_id(),
                    address=address_of(tensor.grad),
                    freed_ns=self.kept.freed_ns.get(index, 0),
                )
            )

        return hook
