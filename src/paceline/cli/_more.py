"""Topics of `show --more`: what each computes of a run, and the table that shows it. Not a command:
its name begins with an underscore."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Topic:
    """One analysis: from a run's path and the rows wanted to values, and from these to a table."""

    compute: Callable[[str, int], tuple[Any, ...]]
    table: str  # of `report.text.analyses`


def _on_timeline(analysis: str) -> Callable[[str, int], tuple[Any, ...]]:
    """Of the graph of all ranks, as recorded."""

    def compute(run: str, top: int) -> tuple[Any, ...]:
        from importlib import import_module

        from paceline.replay import replay
        from paceline.trace.runs import open_run

        function = getattr(import_module(f"paceline.analyse.{analysis}"), f"{analysis}_of")
        timeline = replay(open_run(run))
        found = function(timeline, top) if analysis == "sequences" else function(timeline)
        return tuple(found)

    return compute


def _tree(run: str, top: int) -> tuple[Any, ...]:
    from paceline.analyse.tree import tree_of
    from paceline.trace.files import traces_of

    return tuple(tree_of(trace, top) for trace in traces_of(Path(run)))


def _shapes(run: str, top: int) -> tuple[Any, ...]:
    from paceline.analyse.shapes import shapes_of
    from paceline.trace.files import detail_files
    from paceline.trace.readers.called import called

    return shapes_of(call for file in detail_files(Path(run)) for call in called(file))


def _counters(run: str, top: int) -> tuple[Any, ...]:
    from paceline.analyse.counters import counters_of
    from paceline.trace.files import detail_files
    from paceline.trace.readers.called import counted

    return counters_of(one for file in detail_files(Path(run)) for one in counted(file))


TOPICS: dict[str, Topic] = {
    "device": Topic(_on_timeline("device"), "device_table"),
    "idle": Topic(_on_timeline("idle"), "idle_table"),
    "kernels": Topic(_on_timeline("kernels"), "kernels_table"),
    "sequences": Topic(_on_timeline("sequences"), "sequences_table"),
    "launches": Topic(_on_timeline("launches"), "launches_table"),
    "copies": Topic(_on_timeline("copies"), "copies_table"),
    "tree": Topic(_tree, "tree_shown"),
    "shapes": Topic(_shapes, "shapes_table"),
    "counters": Topic(_counters, "counters_table"),
}
