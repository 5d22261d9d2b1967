"""A judge whose worker dies at one plan, once or each time. Spawned workers import it by name."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.search.score import Judge, Refused, Score
from paceline.strategies import Strategy


@dataclass(frozen=True, eq=False)
class Killing(Judge):
    at: str = ""  # a plan's only strategy, at which the worker's process ends
    once: Path | None = None  # a file that remembers that it happened; None: each time

    def score(self, plan: Sequence[Strategy]) -> Score | Refused:
        if [str(each) for each in plan] == [self.at] and not (self.once and self.once.exists()):
            if self.once:
                self.once.touch()
            os.kill(os.getpid(), 9)
        return super().score(plan)
