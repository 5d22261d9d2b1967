"""How a worker leaves the others."""

import time
from typing import Final

import torch.distributed as dist

_LAST_WORDS_S: Final = 0.2


def part() -> None:
    """Leave the process group, and wait until gloo's threads have let go of it."""
    dist.destroy_process_group()
    outlast_gloo()


def outlast_gloo() -> None:
    """Wait until gloo's threads have let go of their objects: where the process ends before them,
    it may abort."""
    time.sleep(_LAST_WORDS_S)
