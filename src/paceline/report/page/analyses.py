"""What analyses tell of a run beyond its step, as tables of the page; what they name leads into the
timeline."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from paceline.analyse.topics import TOPICS, Analysed
from paceline.errors import TraceError
from paceline.replay import Timeline
from paceline.report.page.contents import Analysis
from paceline.report.text.analyses import ROWS

_TOP: Final = 20
_MOST_OPS: Final = 1_000_000
_FEWER: Final = dict.fromkeys(("sequences", "tree", "shapes", "counters"), 200_000)
"""Ops of a run up to which a page holds an analysis. Sequences are replayed one after the other,
and trace files are read anew: of longer runs they are for the terminal alone."""
_NAMED: Final[Mapping[str, Callable[[Any], str]]] = {
    "kernels": lambda row: str(row.name),
    "sequences": lambda row: str(row.names[0]),
    "copies": lambda row: str(row.name),
    "shapes": lambda row: str(row.call.name),
}
"""The op that a row names."""


def analyses_of(timeline: Timeline, folder: Path | None) -> tuple[tuple[Analysis, ...], str]:
    """All that apply, and which could not be made, with the reason."""
    run, longest = Analysed(folder, timeline), _Longest(timeline)
    found, lacking = [], {}
    for topic in TOPICS:
        most = _FEWER.get(topic, _MOST_OPS)
        if len(timeline.graph) > most:
            lacking[topic] = f"a page holds them of up to {most:,} ops"
            continue
        try:
            made = _analysis(topic, run, longest)
        except TraceError as error:
            lacking[topic] = str(error)
            continue
        if made.rows:
            found.append(made)
    return tuple(found), _lacking(lacking)


def _analysis(topic: str, run: Analysed, longest: "_Longest") -> Analysis:
    values = TOPICS[topic](run, _TOP)
    shown = ROWS[topic](values, _TOP)
    named = _NAMED.get(topic)
    ops = tuple(longest.of(named(value)) for value in values[:_TOP]) if named else ()
    return Analysis(topic, shown.title, shown.columns, shown.rows, ops)


class _Longest:
    """By name: the op that took longest, of equal ones the last."""

    def __init__(self, timeline: Timeline) -> None:
        self._name = timeline.graph.ops.name
        self._lasts = timeline.end_ns - timeline.start_ns
        self._places = {text: index for index, text in enumerate(timeline.graph.names)}

    def of(self, text: str) -> int | None:
        if text not in self._places:
            return None
        rows = np.flatnonzero(self._name == self._places[text])[::-1]
        return int(rows[np.argmax(self._lasts[rows])]) if len(rows) else None


def _lacking(reasons: Mapping[str, str]) -> str:
    """`tree, shapes: REASON. In a terminal: ...`."""
    by_reason: dict[str, list[str]] = {}
    for topic, reason in reasons.items():
        by_reason.setdefault(reason, []).append(topic)
    said = [f"{', '.join(topics)}: {reason}" for reason, topics in by_reason.items()]
    return "; ".join(said)
