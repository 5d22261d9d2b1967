"""Plans scored here or on several workers: `scoring("processes", judge)` replays them."""

from collections.abc import Iterator
from contextlib import contextmanager

from paceline.search.score import Judge, Refused, Score
from paceline.search.trials import Scores
from paceline.spread import Died, opened

PART = 128
"""Plans that go out together, a quarter of a second of work, where there are many."""


@contextmanager
def scoring(on: str, judge: Judge) -> Iterator[Scores]:
    """Here where `on` is empty. What plans share is made ready before workers are given it."""
    if on:
        judge.candidates.make_ready()
    with opened(on, judge.score, PART) as answers:
        yield lambda plans: ((plan, _score(answer)) for plan, answer in answers(plans))


def _score(answer: Score | Refused | Died) -> Score | Refused:
    if isinstance(answer, Died):
        return Refused(f"the worker that replayed it died, {answer.times} times in turn")
    return answer
