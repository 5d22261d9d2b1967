"""A live model compiled in place, and as it was again. Names of parameters stay."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch._inductor import config

from paceline.errors import PacelineError


class CompileError(PacelineError):
    """A model that cannot be compiled on this machine."""


@contextmanager
def compiled(model: Any) -> Iterator[None]:
    _require_compiler(model)
    before = model._compiled_call_impl
    if before is not None:
        raise CompileError("the model is compiled already; leave compiled out of the plan")
    try:
        model.compile()
        yield
    finally:
        model._compiled_call_impl = before


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
