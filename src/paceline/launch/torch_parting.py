"""How a worker of ours leaves the others."""

import time
from typing import Final

import torch.distributed as dist

_LAST_WORDS_S: Final = 0.2


def part() -> None:
    """Leave the process group, and wait until gloo's threads have let go of their objects: where
    the process ends before them, it may abort."""
    dist.destroy_process_group()
    time.sleep(_LAST_WORDS_S)
