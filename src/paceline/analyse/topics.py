"""The analyses by the names under which `show --more` and a run's page know them.

Some are of the graph of all ranks; tree, shapes and counters are of the trace files that a run
keeps.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from paceline.analyse.copies import copies_of
from paceline.analyse.counters import counters_of
from paceline.analyse.device import device_of
from paceline.analyse.idle import idle_of
from paceline.analyse.kernels import kernels_of
from paceline.analyse.launches import launches_of
from paceline.analyse.sequences import sequences_of
from paceline.analyse.shapes import shapes_of
from paceline.analyse.tree import tree_of
from paceline.errors import TraceError
from paceline.replay import Timeline, replay
from paceline.trace.files import detail_files, traces_of
from paceline.trace.readers.called import called, counted
from paceline.trace.runs import open_run


@dataclass(frozen=True)
class Analysed:
    """A run: the folder that keeps its files, its timeline, or both."""

    folder: Path | None
    replayed: Timeline | None = None

    @cached_property
    def timeline(self) -> Timeline:
        if self.replayed is not None:
            return self.replayed
        return replay(open_run(self.files))

    @property
    def files(self) -> Path:
        if self.folder is None:
            raise TraceError("this graph was not opened from a run that keeps trace files")
        return self.folder


Topic = Callable[[Analysed, int], tuple[Any, ...]]
"""From a run, and how many rows are wanted at most, to values."""


def _tree(run: Analysed, top: int) -> tuple[Any, ...]:
    return tuple(tree_of(trace, top) for trace in traces_of(run.files))


def _shapes(run: Analysed, top: int) -> tuple[Any, ...]:
    return shapes_of(call for file in detail_files(run.files) for call in called(file))


def _counters(run: Analysed, top: int) -> tuple[Any, ...]:
    return counters_of(one for file in detail_files(run.files) for one in counted(file))


TOPICS: Final[Mapping[str, Topic]] = {
    "device": lambda run, top: device_of(run.timeline),
    "idle": lambda run, top: idle_of(run.timeline),
    "kernels": lambda run, top: kernels_of(run.timeline),
    "sequences": lambda run, top: sequences_of(run.timeline, top),
    "launches": lambda run, top: tuple(launches_of(run.timeline)),
    "copies": lambda run, top: copies_of(run.timeline),
    "tree": _tree,
    "shapes": _shapes,
    "counters": _counters,
}
