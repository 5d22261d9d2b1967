"""`Speeds`: how fast the workers of one machine compute and move bytes, in four figures.

From a saved `Calibration` (`speeds()`), or probed inside a running job (`torch_probe`).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Speeds:
    memory_bytes_per_s: float  # read and written by a copy
    wire_bytes_per_s: float  # sent by one worker of an all-reduce
    flops_per_s: float
    message_s: float  # beside its bytes
