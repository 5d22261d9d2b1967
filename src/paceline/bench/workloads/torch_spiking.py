"""A spiking network (snnTorch): two layers of leaky neurons, in a loop over 25 time steps."""

import torch
from torch import nn

from paceline.bench.torch_classify import classifying
from paceline.bench.torch_images import CLASSES, SIDE
from paceline.bench.torch_spikes import InTime
from paceline.bench.torch_training import train
from paceline.bench.workload import Domain, Pace, Quality, Setup, Training, Workload

WIDTH, STEPS = 256, 25


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), InTime(SIDE * SIDE, WIDTH, CLASSES, STEPS))


def build(setup: Setup) -> Training:
    return classifying(network(), lambda m: torch.optim.Adam(m.parameters(), lr=1e-3), setup)


WORKLOAD = Workload(
    name="spiking",
    domain=Domain.SPIKING,
    model=f"leaky neurons, {WIDTH} and {CLASSES}, {STEPS} time steps",
    data="Fashion-MNIST, or made images",
    quality=Quality("accuracy", 0.75),
    pace=Pace(batch=64, batches=(16, 32, 64, 128, 256), steps=2000, every=50),
    build=build,
    needs=("snntorch",),
)

if __name__ == "__main__":
    train(WORKLOAD)
