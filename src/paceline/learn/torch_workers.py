"""What a worker of a run needs of torch: its seat among the others, and a network of this house."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from paceline.launch.torch_parting import part
from paceline.learn.errors import LearnError
from paceline.learn.samples import Samples
from paceline.learn.seat import WorkerPlace, is_seated
from paceline.learn.torch_carrier import Gloo
from paceline.learn.torch_models import MODELS
from paceline.learn.torch_network import NetworkLearner
from paceline.learn.torch_regroup import Regroup


@contextmanager
def joined_workers(sums: bool = False) -> Iterator[Gloo]:
    """Among the processes that torchrun, or the lab, has started. Workers that sit below a seat
    may be lost: the others go on."""
    place = WorkerPlace.of(os.environ)
    dist.init_process_group("gloo", timeout=timedelta(seconds=place.patience_s))
    carrier = Gloo(sums, Regroup(place) if is_seated(os.environ) else None)
    try:
        yield carrier
        carrier.met()
    finally:
        if carrier.whole:  # else its connections are closed
            part()


def network(model: str, train: Samples, test: Samples) -> NetworkLearner:
    """With one thread, so that every worker finds the same to the last bit."""
    if model not in MODELS:
        raise LearnError(f"no model is called {model!r}; known are {', '.join(MODELS)}")
    torch.set_num_threads(1)
    return NetworkLearner(MODELS[model], train, test)
