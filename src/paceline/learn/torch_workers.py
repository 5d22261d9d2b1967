"""What a worker of a run needs of torch: its seat among the others, and a network of this house."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from paceline.learn.errors import LearnError
from paceline.learn.samples import Samples
from paceline.learn.torch_carrier import Gloo
from paceline.learn.torch_models import MODELS
from paceline.learn.torch_network import Network

_PATIENCE = timedelta(seconds=120)


@contextmanager
def joined_workers(sums: bool = False) -> Iterator[Gloo]:
    """Among the processes that torchrun, or the lab, has started."""
    missing = [
        n for n in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if n not in os.environ
    ]
    if missing:
        raise LearnError(
            f"several workers were asked for, and {', '.join(missing)} is not set; start them with "
            "torchrun --nproc-per-node N -m paceline learn run ..."
        )
    dist.init_process_group("gloo", timeout=_PATIENCE)
    try:
        yield Gloo(sums)
        dist.barrier()
    finally:
        dist.destroy_process_group()


def network(model: str, train: Samples, test: Samples) -> Network:
    """With one thread, so that every worker finds the same to the last bit."""
    if model not in MODELS:
        raise LearnError(f"no model is called {model!r}; known are {', '.join(MODELS)}")
    torch.set_num_threads(1)
    return Network(MODELS[model], train, test)
