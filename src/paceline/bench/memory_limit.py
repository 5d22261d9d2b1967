"""How much memory a training may take, and how one that wants more is told from a fault."""

import resource
from typing import Final

from paceline.machine import held_bytes

DOES_NOT_FIT: Final = 75
"""Exit code of a worker whose training did not get the memory it asked for."""

_REFUSALS: Final = ("can't allocate memory", "bad_alloc", "bad allocation", "out of memory")
"""How torch's allocators spell it; on processors they have no type of their own for it."""


def limit_memory(size_bytes: int) -> None:
    """From now on this process gets no more than so much besides what it has; 0: no limit."""
    if size_bytes:
        most = held_bytes() + size_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or says_out_of_memory(str(error))


def says_out_of_memory(text: str) -> bool:
    return any(refusal in text for refusal in _REFUSALS)
