"""Scores of many plans whose jobs were replayed together: what `score` tells of each alone."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from paceline.graph.graph import Int64
from paceline.graph.membership import TALKS
from paceline.graph.scaled import works
from paceline.predict.classes import between_ends_ns
from paceline.predict.together import Together
from paceline.search.score import Score, sent_bytes


def scores_of(found: Together) -> Iterator[Score]:
    """Of each job in turn."""
    graph, of, count = found.timeline.graph, found.of, len(found.jobs)
    busy = works(graph)
    work_ns = np.bincount(of[busy], found.timeline.dur_ns[busy], count)
    calls = np.bincount(of[TALKS[graph.ops.kind]], minlength=count)
    sent = _sums(*sent_bytes(graph), of, count)
    ends, ranks = _ends(found), _ranks(found)
    for at, job in enumerate(found.jobs):
        times = int(ranks[at]) * len(ends[at])
        yield Score(
            step_ns=between_ends_ns(ends[at], job.facts.period),
            samples=job.facts.samples,
            sends=round(sent[at] / times),
            calls=float(calls[at]) / times,
            work_ns=round(float(work_ns[at]) / times),
        )


def _sums(rows: Int64, values: "np.ndarray[tuple[int], np.dtype[np.float64]]", of: Int64,
          count: int) -> list[float]:  # fmt: skip
    """By job: the sum of its values, added up in the order in which they are alone."""
    order = np.argsort(of[rows], kind="stable")
    ordered = values[order]
    borders = np.searchsorted(of[rows][order], np.arange(count + 1)).tolist()
    return [float(ordered[a:b].sum()) for a, b in pairwise(borders)]


def _ends(found: Together) -> Sequence[Int64]:
    """By job: when each of its steps ends; by its work, where the job repeats itself by periods."""
    periods = np.array([job.facts.period > 1 for job in found.jobs])
    under_way = TALKS[found.timeline.graph.ops.kind] & periods[found.of]
    end_ns = np.where(under_way, 0, found.timeline.end_ns)
    step = found.timeline.graph.ops.step.astype(np.int64)
    first = int(step.min())
    width = int(step.max()) - first + 1
    last = np.full(len(found.jobs) * width, -1, np.int64)
    np.maximum.at(last, found.of * width + step - first, end_ns)
    return [row[row >= 0] for row in last.reshape(-1, width)]


def _ranks(found: Together) -> Int64:
    """By job: how many ranks it has."""
    rank = found.timeline.graph.ops.rank
    there = np.zeros((len(found.jobs), int(rank.max()) + 1), np.bool_)
    there[found.of, rank] = True
    found_ranks: Int64 = there.sum(axis=1)
    return found_ranks
