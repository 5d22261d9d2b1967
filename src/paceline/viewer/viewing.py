"""`Viewer`: the runs that are open, their pages, and answers to what a page asks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from paceline.cluster import Cluster, parse
from paceline.errors import PacelineError
from paceline.graph import Graph
from paceline.search import Goal
from paceline.strategies import Effect
from paceline.trace.runs import made_of, open_run
from paceline.viewer.errors import ViewError
from paceline.viewer.searches import Searches

if TYPE_CHECKING:
    from paceline.report.page import Contents, JobOnCluster, PageRequest

_FILE_POLICY = "default-src 'none';"
_LIVE_POLICY = "default-src 'none'; connect-src 'self';"
_LONGEST_SEARCH_S = 600.0


@dataclass(frozen=True, eq=False)
class Viewed:
    """One run: what its page is to be of, and the folder that it was opened from, if any."""

    asked: "PageRequest"
    path: Path | None = None
    made_of: str = ""  # what the folder held when it was opened

    @classmethod
    def of(cls, path: Path, ask: "Callable[[Graph], PageRequest]") -> "Viewed":
        """A run's folder; `ask` says what the page of its graph is to be of."""
        now = made_of(path)  # before it is read: what changes meanwhile is noticed later
        return cls(ask(open_run(path)), path, now)

    @property
    def name(self) -> str:
        return self.asked.name

    @property
    def changed(self) -> bool:
        """Whether the folder no longer holds what was opened."""
        return self.path is not None and made_of(self.path) != self.made_of

    def again(self) -> "Viewed":
        """As the folder is now."""
        assert self.path is not None
        try:
            return Viewed.of(self.path, lambda graph: replace(self.asked, graph=graph))
        except PacelineError as error:
            raise ViewError(
                f"{self.path} changed and cannot be opened now ({error}). Reload once it is written"
            ) from error


@dataclass(eq=False)
class Viewer:
    """Pages are made when they are first looked at, and anew when their run's folder changed."""

    runs: tuple[Viewed, ...]
    shell: str  # the template of the page
    searches: Searches = field(default_factory=Searches)
    _pages: dict[int, str] = field(default_factory=dict)
    _one_at_a_time: Lock = field(default_factory=Lock)

    def page(self, run: int) -> str:
        from paceline.report.page import page_of

        with self._one_at_a_time:
            if self._run(run).changed:
                self._renew(run)
            if run not in self._pages:
                shell = self.shell.replace(_FILE_POLICY, _LIVE_POLICY, 1)
                self._pages[run] = page_of(self._contents(run), shell)
            return self._pages[run]

    def _renew(self, run: int) -> None:
        renewed = self.runs[run].again()
        self.runs = (*self.runs[:run], renewed, *self.runs[run + 1 :])
        self._pages.pop(run, None)

    def predict(self, run: int, wanted: Mapping[str, Any]) -> bytes:
        """A scenario: `strategies` as in `bf16+workers(count=4)`, on the page's cluster, or on that
        of the YAML text `cluster`."""
        from paceline.report.page import asked_for, packed_value

        strategies = _text(wanted, "strategies")
        return packed_value(asked_for(self._job(run, _text(wanted, "cluster")), strategies))

    def search(self, run: int, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Start one: `allow` is exact, lossy or relaxed; `budget_s` is its time."""
        return self.searches.start(self._job(run, _text(wanted, "cluster")), _goal(wanted))

    def _contents(self, run: int) -> "Contents":
        from paceline.report.page import Live, gather

        names = tuple(each.name for each in self.runs)
        return replace(gather(self._run(run).asked), live=Live(names, run))

    def _run(self, run: int) -> Viewed:
        if not 0 <= run < len(self.runs):
            raise ViewError(f"there is no run {run}; {len(self.runs)} are open, from 0 on")
        return self.runs[run]

    def _job(self, run: int, cluster: str) -> "JobOnCluster":
        from paceline.report.page import JobOnCluster

        viewed = self._run(run)
        if viewed.changed:
            raise ViewError(f"{viewed.path} changed since this page was made: reload the page")
        asked = viewed.asked
        return JobOnCluster(asked.graph, _cluster(cluster) or asked.cluster, asked.question)


def _cluster(text: str) -> Cluster | None:
    return parse(text) if text.strip() else None


def _goal(wanted: Mapping[str, Any]) -> Goal:
    allow = _text(wanted, "allow") or Effect.EXACT.value
    if allow not in [effect.value for effect in Effect]:
        words = ", ".join(effect.value for effect in Effect)
        raise ViewError(f"a search may allow {words}, and {allow!r} was asked for")
    budget_s = wanted.get("budget_s", 30)
    if not isinstance(budget_s, (int, float)) or not 0 < budget_s <= _LONGEST_SEARCH_S:
        raise ViewError(f"a search takes up to {_LONGEST_SEARCH_S:g} s; {budget_s!r} was asked for")
    return Goal(allow=Effect(allow), budget_s=float(budget_s))


def _text(wanted: Mapping[str, Any], name: str) -> str:
    found = wanted.get(name, "")
    if not isinstance(found, str):
        raise ViewError(f"{name} is to be a text, and is {found!r}")
    return found
