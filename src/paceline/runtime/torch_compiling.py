"""A live model compiled in place, and as it was again. Names of parameters stay.

What is compiled is the module that DDP holds, through a function of our own. `torch.compile` of DDP
itself, and of torch's own containers in place (`nn.Sequential.compile()`), passes over their
frames: each block of a model is then compiled by itself, or nothing is. And for DDP torch cuts the
graph where it expects DDP's buckets to end, the first behind 1 MiB, so that gradients travel beside
the rest of the backward pass. It is told where DDP's first bucket ends: where all gradients are in
it the graph stays whole, and buckets below 1 MiB are no error. Two workers' steps of a small ResNet
at 1 Gbit/s, 56 ms plain: 72 block by block, 53 cut behind 1 MiB, 45 whole. Under FSDP2, whose hooks
part the model, its blocks are compiled one by one, each for its own sizes: of one graph for blocks
of several sizes torch 2.13 makes an error (a ResNet's).
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch._inductor import config

from paceline.errors import PacelineError
from paceline.runtime.torch_reducer import first_bucket_bytes
from paceline.runtime.torch_sharded import sharded_modules


class CompileError(PacelineError):
    """A model that cannot be compiled on this machine."""


@contextmanager
def compiled(model: Any, replicas: Sequence[Any] = ()) -> Iterator[None]:
    """`replicas`: the DDP modules in it."""
    _require_compiler(model)
    with ExitStack() as stack:
        if all(replica is not model for replica in replicas):
            stack.enter_context(_called_by(model, _compiled(model)))
        for replica in replicas:
            call = _in_buckets(_compiled(replica.module), replica)
            stack.enter_context(_called_by(replica.module, call))
        yield


Call = Callable[..., Any]


@contextmanager
def _called_by(module: Any, call: Call) -> Iterator[None]:
    before = module._compiled_call_impl
    if before is not None:
        raise CompileError("the model is compiled already; leave compiled out of the plan")
    try:
        module._compiled_call_impl = call
        yield
    finally:
        module._compiled_call_impl = before


def _compiled(module: Any) -> Call:
    """When it is first called, behind all that a plan does to the model."""

    def call(*given: Any, **named: Any) -> Any:
        return module._call_impl(*given, **named)

    @cache
    def made() -> Call:
        found: Call = torch.compile(call, dynamic=False if sharded_modules(module) else None)
        return found

    return _eager(lambda *given, **named: made()(*given, **named))


def _in_buckets(compiled_call: Call, replica: Any) -> Call:
    """Cut where DDP's first bucket ends, and not where one of torch's default size would. Other
    parts of a plan may still change the buckets until the first call."""

    def call(*given: Any, **named: Any) -> Any:
        with _first_bucket(first_bucket_bytes(replica)):
            return compiled_call(*given, **named)

    return _eager(call)


@contextmanager
def _first_bucket(size_bytes: int) -> Iterator[None]:
    """What torch takes for DDP's, when it compiles."""
    before = dist._DEFAULT_FIRST_BUCKET_BYTES
    dist._DEFAULT_FIRST_BUCKET_BYTES = size_bytes
    try:
        yield
    finally:
        dist._DEFAULT_FIRST_BUCKET_BYTES = before


def _eager(call: Call) -> Call:
    """Not traced itself, where the replica is part of a compiled model; what it calls is."""
    found: Call = torch.compiler.disable(call, recursive=False)
    return found


def _require_compiler(model: Any) -> None:
    """Code for processors is compiled by the machine's C++ compiler, at the first step."""
    if any(p.device.type != "cpu" for p in model.parameters()):
        return
    wanted = [name for name in config.cpp.cxx if name]
    if not any(shutil.which(name) for name in wanted):
        raise CompileError(
            f"torch.compile needs a C++ compiler ({' or '.join(wanted)}) to make code for "
            "processors, and none is found; install g++, or leave compiled out of the plan"
        )
