"""The two passes of training as times."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PassTimes:
    """There and back: through a part of the model with a micro-batch, or through all of it."""

    forward_ns: float
    backward_ns: float

    @property
    def step_ns(self) -> float:
        return self.forward_ns + self.backward_ns
