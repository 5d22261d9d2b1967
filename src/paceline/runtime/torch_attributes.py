"""One object's method replaced for a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any


@contextmanager
def instead(owner: Any, name: str, made: Callable[[Callable[..., Any]], Any]) -> Iterator[None]:
    """`made` gives the new method by the old one, which comes back in the end."""
    own = owner.__dict__.get(name)
    before = getattr(owner, name)
    setattr(owner, name, wraps(before)(made(before)))
    try:
        yield
    finally:
        delattr(owner, name)
        if own is not None:
            setattr(owner, name, own)
