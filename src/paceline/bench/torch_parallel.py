"""How workloads are spread over workers: data-parallel, or with parts that each has alone."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from paceline.bench.workload import Setup, Training


def replicated(model: nn.Module, setup: Setup, own: tuple[str, ...] = ()) -> nn.Module:
    """The model with its gradients averaged over all workers. Modules named in `own` hold
    parameters that no other worker has: they keep their gradients, which all workers' losses have
    added to, as the mean of those losses."""
    if setup.workers == 1:
        return model
    alone = [n for n, _ in model.named_parameters() if n.startswith(own)] if own else []
    for name in alone:
        model.get_parameter(name).register_hook(lambda gradient: gradient / setup.workers)
    kind = nn.parallel.DistributedDataParallel
    kind._set_params_and_buffers_to_ignore_for_model(model, alone)
    return kind(model)


def supervised(
    loss: Callable[[Any], Tensor],
    optimizer: torch.optim.Optimizer,
    batches: Iterator[Any],
    score: Callable[[], float],
) -> Training:
    """The plain loop: forward, backward, update. `loss` runs the model on a batch."""

    def step(batch: Any) -> Tensor:
        optimizer.zero_grad()
        found = loss(batch)
        found.backward()
        optimizer.step()
        return found.detach()

    return Training(batches, step, score)


def plain(model: nn.Module) -> nn.Module:
    """The model that was built, without what spreads it."""
    return model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model


class Judging:
    """`with Judging(model):` evaluates: no gradients, and layers that differ in training rest."""

    def __init__(self, model: nn.Module) -> None:
        self._model, self._quiet = model, torch.no_grad()

    def __enter__(self) -> None:
        self._model.eval()
        self._quiet.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._quiet.__exit__(*error)
        self._model.train()
