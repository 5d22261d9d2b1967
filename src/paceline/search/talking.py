"""How much of plans' critical paths is communication."""

from collections.abc import Iterator, Sequence

from paceline.graph import COMMUNICATION, OpKind
from paceline.predict import Candidates
from paceline.predict.together import Together
from paceline.replay.paths import CriticalPath, critical_path
from paceline.search.errors import SearchError
from paceline.search.score import Refused
from paceline.search.side_by_side import Reading, read
from paceline.search.space import Plan
from paceline.strategies import Strategy

_TALKS = frozenset(OpKind(kind).name.lower() for kind in COMMUNICATION)


def shares_talking(job: Candidates, plans: Sequence[Plan]) -> Iterator[float]:
    """Of each plan in turn, all of which the job takes."""

    def alone(plan: Sequence[Strategy]) -> float:
        return _share(job.timeline(plan).critical_path)

    found = read(Reading[float | Refused](alone, _shares), job, plans)
    for plan, share in zip(plans, found, strict=True):
        if isinstance(share, Refused):
            raise SearchError(f"[{', '.join(map(str, plan))}] cannot be replayed: {share.reason}")
        yield share


def _shares(found: Together) -> Iterator[float]:
    for at in range(len(found.jobs)):
        yield _share(critical_path(found.timeline, found.of == at))


def _share(path: CriticalPath) -> float:
    talks = sum(path.by_kind.get(kind, 0) for kind in _TALKS)
    return talks / max(1, sum(path.by_kind.values()))
