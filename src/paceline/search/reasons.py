"""Why each part is in a plan: what the step loses when it is taken out."""

from dataclasses import dataclass

import numpy as np

from paceline.graph import COMMUNICATION, Phase
from paceline.graph.graph import Int64
from paceline.graph.scaled import works
from paceline.predict.classes import by_class
from paceline.replay import Timeline
from paceline.search.score import Score

_PHASES = {
    "forward": "the forward pass",
    "backward": "the backward pass",
    "update": "the update",
    "data": "loading",
}
_TOLD_NS = 50_000
"""What changes a batch by less is not told beside what changes it more."""


@dataclass(frozen=True, eq=False)
class ReplayedPlan:
    """A plan as it was replayed."""

    score: Score
    timeline: Timeline


def reason(part: str, with_it: ReplayedPlan, without: ReplayedPlan) -> str:
    """One line: what the part does, and the time of a batch with and without it."""
    now, then = with_it.score, without.score
    told = _effects(with_it, without) or ["changes the order of what is done"]
    line = (
        f"{part}: {', '.join(told)}; {_ms(then.batch_ns)} without it, {_ms(now.batch_ns)} with it"
    )
    return line if now.samples == then.samples else f"{line} (for a recorded batch)"


def _effects(with_it: ReplayedPlan, without: ReplayedPlan) -> list[str]:
    """What got less by it, the most first."""
    now, then = _parts(with_it), _parts(without)
    saved = {name: then[name] - now[name] for name in now}
    found = [(saved[name], text) for name, text in _SAVES.items() if saved[name] > _TOLD_NS]
    found += [
        (-saved[f"behind {name}"], f"hides {_ms(-saved[f'behind {name}'])} of the exchange behind "
         f"{words}")
        for name, words in _PHASES.items() if -saved[f"behind {name}"] > _TOLD_NS
    ]  # fmt: skip
    lines = [text.format(ms=_ms(by)) for by, text in sorted(found, key=lambda each: -each[0])]
    return [*lines[:2], *_bytes(with_it.score, without.score)]


_SAVES = {
    "communication": "takes {ms} off the exchange",
    "forward": "takes {ms} off the forward pass",
    "backward": "takes {ms} off the backward pass",
    "update": "takes {ms} off the update",
    "data": "takes {ms} off loading",
}


def _bytes(now: Score, then: Score) -> list[str]:
    """Bytes sent, and memory where it is known."""
    found = []
    if now.batch_sends < 0.99 * then.batch_sends:
        found.append(f"sends {_mb(now.batch_sends)} instead of {_mb(then.batch_sends)}")
    if now.memory_bytes and then.memory_bytes and now.memory_bytes < 0.99 * then.memory_bytes:
        found.append(f"frees {_mb(then.memory_bytes - now.memory_bytes)} of memory")
    return found


def _parts(seen: ReplayedPlan) -> dict[str, float]:
    """Of a mean worker, for a recorded batch: work and communication, and what of communication
    runs beside which work."""
    classes = by_class(seen.timeline)
    hidden = {f"behind {name}": ns for name, ns in hidden_ns(seen.timeline).items()}
    return {name: ns / seen.score.samples for name, ns in {**classes, **hidden}.items()}


def hidden_ns(timeline: Timeline) -> dict[str, float]:
    """How long communication runs beside work of each phase, of a mean rank and step."""
    graph, found = timeline.graph, dict.fromkeys(_PHASES, 0.0)
    ranks = np.unique(graph.ops.rank)
    busy = works(graph) & (timeline.dur_ns > 0)
    for rank in ranks.tolist():
        mine = graph.ops.rank == rank
        talks = mine & np.isin(graph.ops.kind, COMMUNICATION)
        if not talks.any():
            continue
        covered = _Covered.of(timeline.start_ns[talks], timeline.end_ns[talks])
        for name in _PHASES:
            rows = mine & busy & (graph.ops.phase == Phase[name.upper()])
            found[name] += covered.within_ns(timeline.start_ns[rows], timeline.end_ns[rows])
    times = len(ranks) * len(np.unique(graph.ops.step))
    return {name: ns / times for name, ns in found.items()}


@dataclass(frozen=True, eq=False)
class _Covered:
    """Instants that some of the given intervals cover: how many up to each border."""

    borders: Int64
    up_to: Int64

    @staticmethod
    def of(start: Int64, end: Int64) -> "_Covered":
        borders, which = np.unique(np.concatenate([start, end]), return_inverse=True)
        change = np.repeat(np.array([1, -1]), len(start))
        open_now = np.cumsum(np.bincount(which, change, len(borders)))
        lasts = np.diff(borders, prepend=borders[0])
        covered = np.where(np.concatenate([[0], open_now[:-1]]) > 0, lasts, 0)
        return _Covered(borders, np.cumsum(covered))

    def within_ns(self, start: Int64, end: Int64) -> float:
        spans = np.interp(end, self.borders, self.up_to) - np.interp(
            start, self.borders, self.up_to
        )
        return float(spans.sum())


def _ms(ns: float) -> str:
    return f"{ns / 1e6:,.1f} ms" if ns < 1e8 else f"{ns / 1e6:,.0f} ms"


def _mb(size: float) -> str:
    return f"{size / 1e6:,.3g} MB"
