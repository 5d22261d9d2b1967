"""`Reader`: samples of a data set one by one, with what reading and decoding each took.

Files stay open from sample to sample, as loaders keep them. A file that is damaged is named, and
the samples around it are read on.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from paceline.feed.clocked import Clocked
from paceline.feed.formats import Array, Samples, format_of
from paceline.feed.generate import DataSet
from paceline.feed.stopwatch import Stopwatch

OwnReader = Callable[[Path, int], Any]
"""A user's: the file and the place in it -> an array."""

_OPEN: Final = 64


@dataclass(frozen=True)
class Cost:
    """Of one sample or of many, in ns: by the wall, and of it on a core."""

    read_ns: int = 0
    read_worked_ns: int = 0
    decode_ns: int = 0
    decode_worked_ns: int = 0
    waited_ns: int = 0  # of both: ready, without a core
    read_bytes: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.read_ns + other.read_ns,
            self.read_worked_ns + other.read_worked_ns,
            self.decode_ns + other.decode_ns,
            self.decode_worked_ns + other.decode_worked_ns,
            self.waited_ns + other.waited_ns,
            self.read_bytes + other.read_bytes,
        )

    @property
    def blocked_ns(self) -> int:
        """Waiting for storage: without a core, and not ready for one."""
        return max(0, self.read_ns + self.decode_ns - self.worked_ns - self.waited_ns)

    @property
    def worked_ns(self) -> int:
        return self.read_worked_ns + self.decode_worked_ns


@dataclass(frozen=True)
class Damaged:
    """A sample that could not be read."""

    file: str
    place: int  # in the file
    why: str


@dataclass(frozen=True, eq=False)
class Fetched:
    """A sample, or why there is none."""

    sample: Array | None
    cost: Cost
    damaged: Damaged | None = None


@dataclass(eq=False)
class Reader:
    """Reads one data set, for one thread. It crosses to another process without its open files."""

    data: DataSet
    own: OwnReader | None = None
    _files: "OrderedDict[int, tuple[Clocked, Samples]]" = field(default_factory=OrderedDict)
    _watch: Stopwatch | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"data": self.data, "own": self.own, "_files": OrderedDict(), "_watch": None}

    def fetch(self, sample: int) -> Fetched:
        number, place = self.data.place(sample)
        watch = self._watch or Stopwatch()
        self._watch = watch
        begin, before = watch.now(), self._clock(number)
        found: Array | None = None
        damaged = None
        try:
            found = self._sample(number, place)
        except format_of(self.data.description.format).broken as error:
            if self.own is not None:
                raise
            path = self.data.file(number)
            damaged = Damaged(path.name, place, f"{type(error).__name__}: {error}"[:200])
        spent, after = watch.since(begin), self._clock(number)
        read, read_worked, size = (b - a for a, b in zip(before, after))
        decoded = max(0, spent.worked_ns - read_worked)
        cost = Cost(read, read_worked, spent.wall_ns - read, decoded, spent.waited_ns, size)
        return Fetched(found, cost, damaged)

    def close(self) -> None:
        for file, _ in self._files.values():
            file.close()
        self._files.clear()

    def _sample(self, number: int, place: int) -> Array:
        path = self.data.file(number)
        if self.own is not None:
            found: Array = self.own(path, place)
            return found
        if number not in self._files:
            self._open(number, path)
        self._files.move_to_end(number)
        return self._files[number][1][place]

    def _open(self, number: int, path: Path) -> None:
        file = Clocked(path)
        try:
            samples = format_of(self.data.description.format).open(file)  # type: ignore[arg-type]
        except Exception:
            file.close()
            raise
        self._files[number] = file, samples
        if len(self._files) > _OPEN:
            self._files.popitem(last=False)[1][0].close()

    def _clock(self, number: int) -> tuple[int, int, int]:
        file = self._files[number][0] if number in self._files else None
        return (file.read_ns, file.worked_ns, file.read_bytes) if file else (0, 0, 0)
