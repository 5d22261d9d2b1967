"""A spiking network (snnTorch): a population of neurons for each class in place of time steps."""

import torch
from torch import nn

from paceline.bench.torch_classify import classifying
from paceline.bench.torch_images import CLASSES, SIDE
from paceline.bench.torch_spikes import InPopulation
from paceline.bench.torch_training import train
from paceline.bench.workload import Domain, Pace, Quality, Setup, Training, Workload

WIDTH, POPULATION = 256, 50


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), InPopulation(SIDE * SIDE, WIDTH, CLASSES, POPULATION))


def build(setup: Setup) -> Training:
    return classifying(network(), lambda m: torch.optim.Adam(m.parameters(), lr=1e-3), setup)


WORKLOAD = Workload(
    name="spiking_population",
    domain=Domain.SPIKING,
    model=f"leaky neurons, {WIDTH}, and {POPULATION} for each of {CLASSES} classes, one step",
    data="Fashion-MNIST, or made images",
    quality=Quality("accuracy", 0.75),
    pace=Pace(batch=64, batches=(16, 32, 64, 128, 256), steps=2000, every=50),
    build=build,
    needs=("snntorch",),
)

if __name__ == "__main__":
    train(WORKLOAD)
