"""The engine's module in a store of wasmtime, and columns in its memory.

Calls take addresses of columns and of tables of 32-bit words (native/wasm/exported.hpp). Memory may
move when it grows, so nothing here keeps a view across a call.
"""

import atexit
import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Word = int | NDArray[Any]
"""A count, an address, or a column that is put into memory for the call."""


class EngineMemory:
    """The module, instantiated, and its memory."""

    def __init__(self, file: Path) -> None:
        import wasmtime

        self._store = wasmtime.Store()
        module = wasmtime.Module.from_file(self._store.engine, str(file))
        for held in (self._store, module, self._store.engine):  # the last registered goes first
            atexit.register(held.close)
        exported = wasmtime.Instance(self._store, module, []).exports(self._store)
        self._exported: dict[str, Any] = dict(exported)
        self._memory = self._exported["memory"]
        self.call("_initialize")

    def call(self, name: str, *arguments: int) -> int:
        """An address or a number that the module returns, unsigned."""
        found = self._exported[name](self._store, *arguments)
        return 0 if found is None else int(found) & 0xFFFFFFFF

    @property
    def size_bytes(self) -> int:
        """What the module has taken of its host; it never shrinks."""
        found: int = self._memory.data_len(self._store)
        return found

    def room(self, size_bytes: int) -> int:
        return self.call("allocate", size_bytes)

    def release(self, address: int) -> None:
        self.call("release", address)

    def put(self, column: NDArray[Any]) -> int:
        """The address of a copy; whoever asked releases it."""
        column = np.ascontiguousarray(column)
        address = self.room(column.nbytes)
        ctypes.memmove(self._base() + address, column.ctypes.data, column.nbytes)
        return address

    def read(self, dtype: Any, address: int, count: int) -> NDArray[Any]:
        """A copy of what stands there."""
        found = np.empty(count, dtype)
        ctypes.memmove(found.ctypes.data, self._base() + address, found.nbytes)
        return found

    def read_words(self, call: str, subject: int, count: int) -> list[int]:
        """The table of words that a call writes about a subject."""
        with Borrowed(self) as borrowed:
            table = borrowed.put(np.zeros(count, np.uint32))
            self.call(call, subject, table)
            found: list[int] = self.read(np.uint32, table, count).tolist()
        return found

    def _base(self) -> int:
        found = ctypes.cast(self._memory.data_ptr(self._store), ctypes.c_void_p).value
        assert found is not None
        return found


class Borrowed:
    """Memory that is given back at the end of a `with`, or on `release`."""

    def __init__(self, memory: EngineMemory) -> None:
        self._memory = memory
        self._taken: list[int] = []

    def put(self, column: NDArray[Any]) -> int:
        self._taken.append(self._memory.put(column))
        return self._taken[-1]

    def table(self, words: Sequence[Word]) -> int:
        """A table of words; columns among them are put into memory first."""
        found = [word if isinstance(word, int) else self.put(word) for word in words]
        return self.put(np.array(found, np.uint32))

    def release(self) -> None:
        while self._taken:
            self._memory.release(self._taken.pop())

    def __enter__(self) -> "Borrowed":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
