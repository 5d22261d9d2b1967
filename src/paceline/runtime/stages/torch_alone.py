"""The same training in one process, without any pipeline: what a pipeline must equal.

    W(t + 1) = W(t) - nu * grad f(W(max(t - delay, 0)))

Delay 1 is 2BW; delay 0 is synchronous training, GPipe and 1F1B. The optimizer decides what
"- nu * grad" means (momentum, Adam).
"""

from collections import deque

import torch
from torch import Tensor, nn

from paceline.runtime.stages.torch_stage import Loss
from paceline.runtime.stages.torch_worker import Data


def train_alone(
    model: nn.Module,
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    data: Data,
    *,
    batches: int,
    microbatches: int,
    delay: int,
) -> list[float]:
    """Train the model in place; the mean loss of each batch."""
    parameters = list(model.parameters())
    history = deque([_copies(parameters)], maxlen=delay + 1)
    losses = []
    for batch in range(batches):
        _put(parameters, history[0])
        optimizer.zero_grad()
        losses.append(
            _batch(model, loss, data, range(batch * microbatches, (batch + 1) * microbatches))
        )
        _put(parameters, history[-1])
        optimizer.step()
        history.append(_copies(parameters))
    return losses


def _batch(model: nn.Module, loss: Loss, data: Data, numbers: range) -> float:
    total = 0.0
    for k in numbers:
        one = loss(model(data.inputs(k)), data.targets(k))
        (one / len(numbers)).backward()
        total += one.item()
    return total / len(numbers)


def _copies(parameters: list[Tensor]) -> list[Tensor]:
    return [p.detach().clone() for p in parameters]


def _put(parameters: list[Tensor], values: list[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(parameters, values):
            parameter.copy_(value)
