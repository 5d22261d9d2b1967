"""Why the second run is slower than the first, as the page tells it: each cause with an op where it
lies."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paceline.compare import Cause, Difference
from paceline.compare.difference import DifferenceRow
from paceline.compare.places import WorkPlace, places_of
from paceline.graph import NONE
from paceline.graph.graph import Int64
from paceline.replay import Timeline
from paceline.report.page.contents import CauseRow, Compared, Kind
from paceline.report.page.intervals import MOST_OPS
from paceline.report.text.difference_words import basis_lines, cause_words, verdict_line

_ROWS = 12
_NOTICED = 0.002  # of a step: rows below it are left out


def compared(found: Difference, before: Timeline, after: Timeline) -> Compared:
    """The difference; its two runs' timelines lead from causes to ops."""
    runs = (_Run(Kind.RECORDED, before), _Run(Kind.MEASURED, after))
    least = _NOTICED * found.before_ns
    return Compared(
        verdict=verdict_line(found),
        basis=tuple(basis_lines(found)),
        before=found.before,
        after=found.after,
        change_ns=found.change_ns,
        causes=tuple(_cause_row(cause, runs) for cause in found.causes[:_ROWS]),
        classes=_shown(found.classes, least),
        layers=_shown(tuple(row for row in found.layers if row.name), least),
        ranks=tuple(
            (r.rank, r.compute_ns, r.transfer_ns, r.for_ranks_ns, r.input_ns, r.other_ns)
            for r in found.ranks
        ),
    )


@dataclass(frozen=True, eq=False)
class _Run:
    """One of the two, as ops at places."""

    kind: Kind
    timeline: Timeline

    @cached_property
    def _places(self) -> tuple[dict[WorkPlace, int], Int64]:
        places, of_op = places_of(self.timeline.graph)
        return {place: number for number, place in enumerate(places)}, of_op

    def longest(self, place: WorkPlace, rank: int) -> int | None:
        """The longest op there, on that rank where one is named."""
        if self.kind is Kind.MEASURED and len(self.timeline.graph) > MOST_OPS:
            return None  # its ops are drawn as intervals
        numbers, of_op = self._places
        if place not in numbers:
            return None
        mine = np.flatnonzero(of_op == numbers[place])
        if rank != NONE:
            mine = mine[self.timeline.graph.ops.rank[mine] == rank]
        if not len(mine):
            return None
        lasts = self.timeline.end_ns[mine] - self.timeline.start_ns[mine]
        return int(mine[np.argmax(lasts)])


def _cause_row(cause: Cause, runs: tuple[_Run, _Run]) -> CauseRow:
    """It leads to where most of it lies, in the run in which that takes longer."""
    kind, op = Kind.RECORDED, None
    if cause.moved:
        most = cause.moved[0]
        run = runs[most.after_ns >= most.before_ns]
        kind, op = run.kind, run.longest(most.place, cause.rank)
    return CauseRow(cause_words(cause), cause.share_ns, cause.noise_ns, kind.value, op)


def _shown(
    rows: tuple[DifferenceRow, ...], least_ns: float
) -> tuple[tuple[str, float, float], ...]:
    kept = (row for row in rows if abs(row.change_ns) > least_ns)
    return tuple((row.name, row.before_ns, row.after_ns) for row in kept)[:_ROWS]
