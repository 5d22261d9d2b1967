"""`Target`: what a recording is to be carried over to."""

from dataclasses import dataclass
from enum import Enum

from paceline.cost.retarget.job import RetargetError


class Exchange(Enum):
    """How workers share gradients."""

    ALL_REDUCE = "all-reduce"
    PARAMETER_SERVER = "parameter-server"  # servers on the workers' own hosts


@dataclass(frozen=True)
class Target:
    """What changes; what is left alone stays as recorded."""

    workers: int = 0  # 0: as many as recorded
    bucket_bytes: int = 0  # 0: the recorded buckets
    first_bucket_bytes: int = 0  # 0: as large as the others
    batch: float = 1.0  # each worker's samples a step, as a multiple of the recorded
    compute: float = 1.0  # time of all work on the new device, as a multiple of the recorded
    exchange: Exchange = Exchange.ALL_REDUCE

    def __post_init__(self) -> None:
        if self.workers < 0 or self.bucket_bytes < 0 or self.first_bucket_bytes < 0:
            raise RetargetError(
                f"{self.workers} workers, buckets of {self.bucket_bytes} and first of "
                f"{self.first_bucket_bytes} bytes were asked for; none may be negative"
            )
        if not (self.batch > 0 and self.compute > 0):
            raise RetargetError(
                f"batch x {self.batch:g} and compute x {self.compute:g} were asked for; "
                "both must be above zero"
            )
