"""`overview_of`: what a person should see first of a timeline, as `paceline show` prints it."""

from dataclasses import dataclass

from paceline.replay import Timeline
from paceline.replay.memory_by_rank import RankPeak, rank_peaks
from paceline.report.run import RunSummary, summarise_run
from paceline.report.summary import Summary, summarise


@dataclass(frozen=True)
class Overview:
    """Where the step goes, what its steps and its communication were like, what each rank held."""

    summary: Summary
    run: RunSummary
    peaks: tuple[RankPeak, ...]  # none where the recording does not tell what ops allocate


def overview_of(timeline: Timeline, top: int = 8) -> Overview:
    """With at most `top` layers, path ops and allocations."""
    peaks = tuple(rank_peaks(timeline)) if timeline.graph.facts.memory else ()
    return Overview(summarise(timeline, top), summarise_run(timeline), peaks)
