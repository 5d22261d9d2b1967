"""What is to be tuned, and how far the loop may go."""

from dataclasses import dataclass, field
from pathlib import Path

from paceline.search import Goal
from paceline.trial import Place, Timetable, here
from paceline.tune.errors import TuneError
from paceline.tune.where import Where

TRIALS = 3
SEARCH_S = 30.0


@dataclass(frozen=True)
class TuneRequest:
    """A command, the folder that keeps what is found, and the goal. Without `where` predictions
    are for the machines that are recorded; `place` runs the job."""

    command: tuple[str, ...]
    folder: Path
    goal: Goal = field(default_factory=Goal)
    searcher: str = "guided"
    where: Where | None = None
    place: Place = here
    budget_s: float = 900.0
    steps: int = 0  # measured of each side; 0: as many as the noise and the gain ask for
    hang_s: float = 60.0  # without a step, after which a job is said to hang
    trials: int = TRIALS
    apart: bool = False  # also plans that cannot take turns within one run, and need eight runs
    seed: int = 0

    def __post_init__(self) -> None:
        given = {
            "a budget": f"{self.budget_s:g} s",
            "a time without a step": f"{self.hang_s:g} s",
            "a number of trials": str(self.trials),
        }
        lacking = zip(given.items(), (self.budget_s, self.hang_s, self.trials))
        for (what, told), value in lacking:
            if not value > 0:
                raise TuneError(f"{what} of {told} was asked for; give more than 0")

    def table(self, needed: int, period: int) -> Timetable:
        """As many steps as were asked for, else as are needed, within bounds. Short trials take
        shorter blocks: chance needs rounds to be told from."""
        a_side = self.steps or max(30, min(200, needed))
        return Timetable(a_side, block=max(3, min(10, a_side // 6)), period=period, seed=self.seed)
