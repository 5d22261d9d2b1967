"""Run chosen modules' forward passes again in the backward pass, instead of keeping what they save.

torch's non-reentrant checkpoint restores random numbers and autocast. Buffers that a forward pass
updates (batch norm's statistics) are put back after the second one, so that they count once.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from paceline.record.torch_facts import clean_path
from paceline.runtime.segments import HOLDERS, SegmentError, parent_of, segments_of
from paceline.runtime.torch_forward import forward_as


@contextmanager
def recomputing(model: Any, layers: str, every: int) -> Iterator[None]:
    """The model with its chosen segments under checkpoint, until the context is left."""
    modules = _modules(model)
    kinds = {name: type(module).__name__ for name, module in modules.items()}
    segments = segments_of(kinds, layers, every)
    with ExitStack() as stack:
        for (name,) in (segment for segment in segments if len(segment) == 1):
            module = modules[name]
            stack.enter_context(forward_as(module, partial(_again, modules=[module])))
        several = [segment for segment in segments if len(segment) > 1]
        for parent in dict.fromkeys(parent_of(segment[0]) for segment in several):
            mine = [[modules[n] for n in s] for s in several if parent_of(s[0]) == parent]
            container = modules[parent]
            _require_sequential(container, parent)
            stack.enter_context(forward_as(container, partial(_in_runs, container, mine)))
        yield


def _modules(model: Any) -> dict[str, Any]:
    """Modules that run, by path; the model itself is the innermost of its wrappers."""
    found: dict[str, Any] = {}
    for path, module in model.named_modules():
        name = clean_path(path)
        if type(module).__name__ not in HOLDERS:
            found[name] = module
    return found


def _require_sequential(container: Any, path: str) -> None:
    if type(container).forward is not torch.nn.Sequential.forward:
        raise SegmentError(
            f"{path or 'the model'} is called Sequential and runs its layers in a way of its own; "
            "take every=1"
        )


def _again(forward: Callable[..., Any], modules: list[Any]) -> Callable[..., Any]:
    """The forward pass under checkpoint; without gradients as it was."""

    def run(*given: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*given, **named)
        return checkpoint(
            forward,
            *given,
            use_reentrant=False,
            context_fn=lambda: (nullcontext(), _buffers_kept(modules)),
            **named,
        )

    return run


def _in_runs(container: Any, runs: list[list[Any]], _: Callable[..., Any]) -> Callable[[Any], Any]:
    """A Sequential's forward pass, its runs of layers under checkpoint."""
    first = {id(run[0]): run for run in runs}
    within = {id(module) for run in runs for module in run}

    def forward(value: Any) -> Any:
        for module in container:
            if id(module) in first:
                run = first[id(module)]
                value = _again(_chain(run), run)(value)
            elif id(module) not in within:
                value = module(value)
        return value

    return forward


def _chain(run: list[Any]) -> Callable[[Any], Any]:
    def forward(value: Any) -> Any:
        for module in run:
            value = module(value)
        return value

    return forward


@contextmanager
def _buffers_kept(modules: list[Any]) -> Iterator[None]:
    """What the second forward pass does to buffers is undone. By `.data`, for autograd kept some of
    them for the backward pass, and they are again what it saw."""
    buffers = [buffer for module in modules for buffer in module.buffers()]
    before = [buffer.detach().clone() for buffer in buffers]
    try:
        yield
    finally:
        for buffer, value in zip(buffers, before):
            buffer.data.copy_(value)
