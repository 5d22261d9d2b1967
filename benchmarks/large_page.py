"""The page of a run of more than a thousand ranks, which carries intervals in place of ops.

What happens on the lanes is drawn at random (benchmarks/large_run.py); tables and bars are those of
a small job on as many ranks, whose ops the links of the page do not lead to.
"""

from dataclasses import replace
from pathlib import Path

from benchmarks.large_run import LargeRun, spans_of_run
from paceline.graph.synthetic.training import training
from paceline.graph.synthetic.training_job import TrainingJob
from paceline.report.page import Contents, PageRequest, gather, write_page
from paceline.report.page.contents import Kind, LaneRow, Piece
from paceline.report.page.intervals import Whole, interval_track

RANKS_OF_A_HOST = 8
LANES = (("stream 7", "stream"), ("stream 13", "comm_thread"))


def large_page(run: LargeRun, folder: Path) -> Path:
    """The file, as `paceline report` would write it."""
    return write_page(contents(run), folder / "large.html")


def contents(run: LargeRun) -> Contents:
    small = gather(PageRequest("large", training(TrainingJob(workers=run.ranks, layers=2))))
    spans, step_ns = spans_of_run(run)
    whole = Whole(run.events, spans, lanes(run), ((0, 0, step_ns),))
    return replace(
        small,
        headline=((Piece(f"A step takes {step_ns:,} ns on {run.ranks:,} ranks."),),),
        step_ns=step_ns,
        tracks=(interval_track(Kind.RECORDED, "recorded, large", whole),),
        scenarios=(),
        levers=(),
        missing={**small.missing, "what_if": "Its typical step is too large for a page."},
    )


def lanes(run: LargeRun) -> tuple[LaneRow, ...]:
    return tuple(
        LaneRow(rank, rank // RANKS_OF_A_HOST, name, kind, 0)
        for rank in range(run.ranks)
        for name, kind in LANES
    )
