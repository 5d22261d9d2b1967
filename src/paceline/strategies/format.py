"""Samples lie in files of another format, which may be faster to read or to decode.
DLIO (Devarajan et al., CCGrid 2021); Flux in MLPerf Storage, where decoding Parquet took half.

What a batch takes is what samples of this job's size took in that format on this machine, which
`paceline io run --formats all` measures and keeps in the graph. In a live job each sample is
written in the new format the first time that it is asked for, and read from there later (`folder`);
predicted is an epoch behind that. Formats of images are none of these: JPEG does not keep every
value, and neither holds anything else. Wrong where the files were cached when they were measured
and are not in the run.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.condense import Grain
from paceline.graph.storage import from_format
from paceline.runtime.run import Run
from paceline.strategies.strategy import Strategy, StrategyError


@dataclass(frozen=True)
class Format(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    conflicts: ClassVar[frozenset[str]] = frozenset({"cache", "format"})
    applies: ClassVar[bool] = True
    in_turns: ClassVar[bool] = False

    name: str  # npz, hdf5, parquet, tfrecord or raw
    folder: str = ""  # of the files; empty: a temporary one, removed in the end

    def __post_init__(self) -> None:
        from paceline.feed.formats import ARRAYS

        if self.name not in ARRAYS:
            raise StrategyError(
                f"{self.name!r} is no format for arrays of any kind; known: {', '.join(ARRAYS)}"
            )

    def transform(self, graph: Graph) -> Graph:
        return from_format(graph, self.name)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        known = [each.format for each in graph.facts.loading.formats]
        if known:
            from paceline.feed.formats import ARRAYS

            yield from (cls(name) for name in known if name in ARRAYS)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.feed.formats import format_of
        from paceline.feed.torch_converted import samples_in

        return samples_in(format_of(self.name), self.folder)
