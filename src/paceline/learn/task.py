"""`Task`: what is trained, on whose data, how, and for how long."""

from dataclasses import dataclass, field

from paceline.learn.algorithm import Algorithm, Peers, Setting
from paceline.learn.algorithms import text_of
from paceline.learn.chances import Chances
from paceline.learn.errors import LearnError
from paceline.learn.learner import Learner
from paceline.learn.partition import Partition


@dataclass(frozen=True, eq=False)
class Task:
    """One training with one seed."""

    learner: Learner
    partition: Partition
    algorithm: Algorithm
    rounds: int
    seed: int = 1
    chances: Chances = field(default_factory=Chances)
    every: int = 1  # rounds from one judgement to the next; the last round is always judged
    model: str = ""
    test_samples: int = 0
    enough_samples: int = 0  # it ends once a client has learned from so many; 0: never

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.every < 1:
            raise LearnError("a run has 1 round or more, and is judged every 1 or more")
        if isinstance(self.algorithm, Peers) and self.chances.per_round:
            raise LearnError(
                f"in {text_of(self.algorithm)} every client keeps weights of its own and takes "
                "part in every round; leave per_round out"
            )

    @property
    def setting(self) -> Setting:
        return Setting(self.learner, self.partition.sizes, self.rounds, self.seed)
