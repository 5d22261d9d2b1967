"""`Contents`: all that a run's page shows, as frozen values. `PlanAlone`: a plan's without a run.
`write` makes a file of either.

Field names are the keys that `web/src/contents.ts` reads: a change here is one there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from paceline.cluster.machine import Rests
from paceline.report.page.columns import Column


class Of(Enum):
    """What a page is of; the value is the file format."""

    RUN = "run"
    PLAN = "plan"


class Kind(Enum):
    """Which of the timelines that stand under each other; the value is the file format."""

    RECORDED = "recorded"
    PREDICTED = "predicted"
    MEASURED = "measured"  # a second run


@dataclass(frozen=True)
class Piece:
    """Part of a sentence; one with a place is a link into the timeline."""

    text: str
    op: int | None = None  # of the recorded timeline
    span_ns: tuple[int, int] | None = None


Sentence = tuple[Piece, ...]


@dataclass(frozen=True)
class LaneRow:
    """A queue on a rank."""

    rank: int
    host: int
    name: str
    kind: str
    discipline: int  # 0: in recorded order, 1: by priority


@dataclass(frozen=True, eq=False)
class Track:
    """One timeline: a row of `columns` for each op."""

    kind: str
    title: str
    lanes: tuple[LaneRow, ...]
    names: tuple[str, ...]  # pool of texts that columns hold indices into
    groups: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]  # by tensor
    span_ns: int
    steps: tuple[tuple[int, int, int], ...]  # number, begin, end
    path: Mapping[str, Column]  # ops of the critical path, and their shares
    columns: Mapping[str, Column]


@dataclass(frozen=True)
class RankRow:
    """Where one rank's time goes: shares of all recorded steps, in the order of `STATES`."""

    rank: int
    host: int
    shares_ns: tuple[int, ...]


@dataclass(frozen=True)
class PathRow:
    """A share of the critical path, and the op of that name which weighs most."""

    name: str
    detail: str
    count: int
    share_ns: int
    op: int | None


@dataclass(frozen=True, eq=False)
class FullestRank:
    """What the fullest rank holds, by category and over time."""

    rank: int
    categories: tuple[str, ...]
    time_ns: Column
    held_bytes: tuple[Column, ...]  # one for each category
    peak_bytes: int
    at_ns: int
    op: int
    capacity_bytes: int  # 0 unknown


@dataclass(frozen=True)
class Meetings:
    """Collectives and messages."""

    count: int
    rows: tuple[tuple[Any, ...], ...]  # instance, name, group, ranks, bytes, ..., late rank, an op
    groups: tuple[tuple[Any, ...], ...]
    stragglers: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Lever:
    """Something that a slider slides."""

    name: str
    label: str
    ops: int  # that it touches
    why_not: str = ""  # greyed: what this file lacks, and the command that would bring it
    selection: str = ""  # the same ops for `paceline predict --scale`
    now: float = 0.0  # of links: their rate in bit/s, their latency in ns; 0 where they differ


@dataclass(frozen=True, eq=False)
class Scenario:
    """A typical step that the engine in the page replays: as recorded, or under a strategy."""

    name: str
    step_ns: int
    low_ns: int
    high_ns: int
    workers: int
    period: int  # steps after which the job repeats itself
    overlap: bool  # steps run into one another
    by_class: Mapping[str, int]
    rests_on: tuple[str, ...]
    track: Track
    program: Mapping[str, Column]  # durations, and how sliders change them
    shares: Mapping[str, Column]  # what ops share while they run; empty: nothing
    loaded: bool  # whether what links carry takes processor time
    rests: Rests
    prices: tuple[Mapping[str, Any], ...]  # of distinct communications, by `prices.link_prices`
    levers: tuple[Lever, ...] = ()  # its own sliders; none: those of the page


@dataclass(frozen=True)
class Choice:
    """A strategy that was tried for this file and cannot be switched on here."""

    name: str
    why_not: str


@dataclass(frozen=True)
class PlanRow:
    """A plan and what came of it."""

    strategies: tuple[str, ...]
    before_ns: int
    after_ns: int
    low_ns: int
    high_ns: int
    classes: tuple[tuple[str, int, int], ...]  # class, before, after
    measured_ns: int | None
    error: float | None
    within: bool | None


@dataclass(frozen=True)
class CauseRow:
    """A part of a difference, and an op where it lies."""

    words: str
    share_ns: float
    noise_ns: float
    track: str  # the value of a `Kind`: on which timeline the op is
    op: int | None


@dataclass(frozen=True)
class Compared:
    """Why the second run is slower or faster than the first. Rows of classes and layers are name,
    before, after; of ranks the rank and by how much it computes, transfers, waits for ranks, for
    input, and does nothing of this longer. All in ns a step."""

    verdict: str
    basis: tuple[str, ...]
    before: str
    after: str
    change_ns: float
    causes: tuple[CauseRow, ...]
    classes: tuple[tuple[str, float, float], ...]
    layers: tuple[tuple[str, float, float], ...]
    ranks: tuple[tuple[int, float, float, float, float, float], ...]


@dataclass(frozen=True)
class Analysis:
    """One analysis as a table of texts; `ops` are what its rows name, where they name any."""

    topic: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    ops: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Live:
    """A page that `paceline view` serves, which can ask for more: runs that are open, and which of
    them this is."""

    runs: tuple[str, ...]
    here: int


@dataclass(frozen=True, eq=False)
class Contents:
    """The page from top to bottom."""

    title: str
    version: str
    headline: tuple[Sentence, ...]
    facts: tuple[tuple[str, str], ...]  # short figures under the headline
    step_ns: float
    steps_ns: tuple[int, ...]
    states: tuple[tuple[str, str], ...]
    ranks: tuple[RankRow, ...]
    waited_for: tuple[int, int] | None  # rank, what others waited for it
    path_ns: int
    path_by_kind: tuple[PathRow, ...]
    path_by_layer: tuple[PathRow, ...]
    path_ops: tuple[PathRow, ...]
    tracks: tuple[Track, ...]
    levers: tuple[Lever, ...]
    scenarios: tuple[Scenario, ...]
    cannot: tuple[Choice, ...]
    memory: FullestRank | None
    meetings: Meetings
    plan: PlanRow | None
    rests_on: tuple[str, ...]
    notes: tuple[str, ...]
    missing: Mapping[str, str] = field(default_factory=dict)  # part of the page -> what to do
    live: Live | None = None  # None: a file
    difference: Compared | None = None  # to a second run
    analyses: tuple[Analysis, ...] = ()
    of: Of = Of.RUN


@dataclass(frozen=True)
class PlanPart:
    """A strategy of a plan: what it is, and why it is in the plan, where that was said."""

    strategy: str
    does: str
    why: str


@dataclass(frozen=True)
class PlanAlone:
    """The page of a plan without a run: all that its file holds, in texts. Rows are name, value."""

    title: str
    version: str
    step: str  # as predicted; empty: nobody predicted it
    headline: tuple[str, ...]
    parts: tuple[PlanPart, ...]
    reasons: tuple[str, ...]  # of no part
    predicted: tuple[tuple[str, str], ...]
    made_for: tuple[tuple[str, str], ...]
    missing: Mapping[str, str]  # part of the page -> what to do
    of: Of = Of.PLAN
