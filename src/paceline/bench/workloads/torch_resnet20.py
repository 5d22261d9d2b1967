"""ResNet-20 (He et al. 2016, as for CIFAR): three stages of three residual blocks."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.bench.torch_classify import classifying
from paceline.bench.torch_training import train
from paceline.bench.workload import Domain, Pace, Quality, Setup, Training, Workload

WIDTHS = (16, 32, 64)
BLOCKS = 3


class Residual(nn.Module):
    """Two 3 by 3 convolutions beside a shortcut."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = _normed(width, out, 3, stride), _normed(out, out, 3)
        same = stride == 1 and width == out
        self.shortcut = nn.Identity() if same else _normed(width, out, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.second(functional.relu(self.first(x))) + self.shortcut(x))


def _normed(width: int, out: int, side: int, stride: int = 1) -> nn.Module:
    conv = nn.Conv2d(width, out, side, stride, side // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out))


def network() -> nn.Module:
    parts: list[nn.Module] = [_normed(1, WIDTHS[0], 3), nn.ReLU()]
    width = WIDTHS[0]
    for stage, out in enumerate(WIDTHS):
        for block in range(BLOCKS):
            parts.append(Residual(width, out, 2 if stage and not block else 1))
            width = out
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def build(setup: Setup) -> Training:
    return classifying(network(), lambda m: torch.optim.AdamW(m.parameters(), lr=3e-3), setup)


WORKLOAD = Workload(
    name="resnet20",
    domain=Domain.IMAGES,
    model="ResNet-20, 0.27 million parameters",
    data="Fashion-MNIST, or made images",
    quality=Quality("accuracy", 0.78),
    pace=Pace(batch=32, batches=(8, 16, 32, 64, 128), steps=600, every=25),
    build=build,
)

if __name__ == "__main__":
    train(WORKLOAD)
