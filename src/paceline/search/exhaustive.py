"""Every plan of a small space: the judge of the other searchers."""

from paceline.predict import Candidates
from paceline.search.errors import SearchError
from paceline.search.space import Space
from paceline.search.trials import Trials

MOST = 100_000
"""Combinations, before conflicts: minutes of replay."""


def exhaustive(space: Space, trials: Trials, job: Candidates) -> None:
    if space.count > MOST:
        raise SearchError(
            f"{space.count:,} combinations are too many to try them all ({MOST:,} at most); name "
            "the strategies to choose from (--only), or take the guided searcher"
        )
    trials.ask(space.plans())
