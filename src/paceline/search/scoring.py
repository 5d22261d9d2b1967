"""Plans scored here or on several workers: `scoring("processes", judge)` replays them."""

from collections.abc import Iterator
from contextlib import contextmanager

from paceline.search.judge import Judge
from paceline.search.score import Refused, Score
from paceline.search.trials import Scores
from paceline.spread import Died, Parts, opened

PARTS = Parts(most=2048, least=128, alike=64)
"""Of plans: those that go out together are replayed together, and neighbours begin alike."""


@contextmanager
def scoring(on: str, judge: Judge) -> Iterator[Scores]:
    """Here where `on` is empty. What plans share is made ready before workers are given it."""
    if on:
        judge.candidates.make_ready()
    with opened(on, judge.scores, PARTS) as answers:
        yield lambda plans: ((plan, _score(answer)) for plan, answer in answers(plans))


def _score(answer: Score | Refused | Died) -> Score | Refused:
    if isinstance(answer, Died):
        return Refused(f"the worker that replayed it died, {answer.times} times in turn")
    return answer
