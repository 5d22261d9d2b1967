"""Another forward pass for a live module, until the context is left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def with_forward(module: Any, forward: Callable[..., Any]) -> Iterator[None]:
    """Set on the module itself, so that its class and its other instances stay as they are."""
    before = module.__dict__.get("forward")
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
        if before is not None:
            module.forward = before
