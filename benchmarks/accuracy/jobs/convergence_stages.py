"""The classifier of `convergence_worker` in two stages of torch.distributed.pipelining: the same
samples in the same batches as two data-parallel workers have, so plain training learns the same."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

import paceline

MICRO_BATCHES = 4
CUT = 2  # layers of the first stage: the first product and its rectifier


class Stages:
    """This worker's stage, and how both work."""

    def __init__(self, model: nn.Sequential) -> None:
        rank = dist.get_rank()
        self.part = (model[:CUT], model[CUT:])[rank]
        stage = PipelineStage(self.part, rank, 2, torch.device("cpu"))
        loss = nn.functional.cross_entropy
        self._schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=loss)
        self._first = rank == 0

    def step(self, images: Tensor, labels: Tensor) -> None:
        if self._first:
            self._schedule.step(images)
        else:
            self._schedule.step(target=labels)


def trained(
    model: nn.Sequential, batches: list[tuple[Tensor, Tensor]], strategy: str, rate: float,
    momentum: float,
) -> dict[str, Any]:  # fmt: skip
    """Trains the model's weights on both workers; bytes are of a mean worker. `plain_bytes` is what
    all activations and their gradients would take."""
    stages = Stages(model)
    optimizer = torch.optim.SGD(stages.part.parameters(), lr=rate, momentum=momentum)
    falls = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / len(batches))
    with paceline.applied([strategy], stages.part, optimizer) as sent:
        for images, labels in batches:
            optimizer.zero_grad()
            stages.step(images, labels)
            optimizer.step()
            falls.step()
        bytes_of_both = torch.tensor([sent.wire_bytes])
    dist.all_reduce(bytes_of_both)
    for place, layer in enumerate(model):
        for parameter in layer.parameters():
            dist.broadcast(parameter.data, src=int(place >= CUT))
    passing = model[0].out_features * 4 * sum(len(labels) for _, labels in batches)
    return {"wire_bytes": int(bytes_of_both) // 2, "plain_bytes": passing}
