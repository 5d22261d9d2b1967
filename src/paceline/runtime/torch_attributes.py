"""One object's method replaced for a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import MethodType
from typing import Any


@contextmanager
def instead(owner: Any, name: str, made: Callable[[Callable[..., Any]], Any]) -> Iterator[None]:
    """`made` gives the new method by the old one, which comes back in the end. It is bound, for
    learning-rate schedulers wrap the function behind it."""
    own = owner.__dict__.get(name)
    before = getattr(owner, name)
    new = made(before)

    @wraps(getattr(before, "__func__", before))
    def method(_: Any, *given: Any, **named: Any) -> Any:
        return new(*given, **named)

    setattr(owner, name, MethodType(method, owner))
    try:
        yield
    finally:
        delattr(owner, name)
        if own is not None:
            setattr(owner, name, own)
