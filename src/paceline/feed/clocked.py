"""`Clocked`: a file that counts what reading it took, so that reading is told from decoding."""

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Clocked(io.RawIOBase):
    """A file without a buffer of its own. `read_ns` is by the wall, `worked_ns` of it on a core."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self.read_ns = 0
        self.worked_ns = 0
        self.read_bytes = 0

    def readinto(self, buffer: Any) -> int:
        count: int = self._counted(lambda: self._file.readinto(buffer))
        self.read_bytes += count
        return count

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._counted(lambda: self._file.read(size))
        self.read_bytes += len(data)
        return data

    def _counted(self, read: Callable[[], Any]) -> Any:
        begin, ran = time.perf_counter_ns(), time.thread_time_ns()
        found = read()
        self.worked_ns += time.thread_time_ns() - ran
        self.read_ns += time.perf_counter_ns() - begin
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()
