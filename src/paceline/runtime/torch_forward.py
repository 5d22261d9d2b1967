"""Put something around a live module's forward, and take it away again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

Forward = Callable[..., Any]


@contextmanager
def forward_as(module: Any, wrapped: Callable[[Forward], Forward]) -> Iterator[None]:
    """`wrapped(forward)` in the place of the module's forward, until the context is left."""
    before = vars(module).get("forward")
    original = module.forward
    module.forward = wraps(original)(wrapped(original))
    try:
        yield
    finally:
        del module.forward
        if before is not None:
            module.forward = before
