"""`Round`: one exchange of weights, or of a part of them, that comes once in a period."""

from dataclasses import dataclass

from paceline.errors import GraphError


@dataclass(frozen=True)
class Round:
    """Handed over behind the update of one step, and taken in behind that of the same or a later
    one."""

    name: str  # the ops are called `pack NAME` and `take NAME`
    step: int  # of the period, from 0
    lasts: int = 0  # steps during which it travels; 0: the rank waits for it
    packs: int = 2  # how often packing passes over the bytes that travel
    takes: int = 2  # how often taking in does
    fragment: int = 0  # which part of the weights travels
    times: int = 1  # how many tensors of each weight's size travel


@dataclass(frozen=True)
class Rounds:
    """What happens in a period of so many steps."""

    period: int
    rounds: tuple[Round, ...]
    fragments: int = 1  # parts of the weights

    def __post_init__(self) -> None:
        if self.period < 1 or self.fragments < 1:
            raise GraphError(f"a period and its fragments must be 1 or more: {self}")
        for each in self.rounds:
            if not (0 <= each.step < self.period and 0 <= each.lasts <= self.period):
                raise GraphError(f"{each} does not fit a period of {self.period} steps")
