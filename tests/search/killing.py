"""A judge whose worker dies at one plan, once or each time. Spawned workers import it by name."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.search.judge import Judge
from paceline.search.score import Refused, Score
from paceline.strategies import Strategy


@dataclass(frozen=True, eq=False)
class Killing(Judge):
    at: str = ""  # a plan's only strategy, at which the worker's process ends
    once: Path | None = None  # a file that remembers that it happened; None: each time

    def scores(self, plans: Iterable[Sequence[Strategy]]) -> Iterator[Score | Refused]:
        return super().scores(map(self._alive, plans))

    def _alive(self, plan: Sequence[Strategy]) -> Sequence[Strategy]:
        if [str(each) for each in plan] == [self.at] and not (self.once and self.once.exists()):
            if self.once:
                self.once.touch()
            os.kill(os.getpid(), 9)
        return plan
