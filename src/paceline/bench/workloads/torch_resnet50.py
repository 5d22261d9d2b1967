"""ResNet-50 (He et al. 2016): bottleneck blocks behind the stem of ImageNet's networks."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.bench.torch_classify import classifying
from paceline.bench.torch_training import train
from paceline.bench.workload import Domain, Pace, Quality, Setup, Training, Workload

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # inner width, blocks
WIDER = 4  # outer over inner width


class Bottleneck(nn.Module):
    """1 by 1, 3 by 3 and 1 by 1 beside a shortcut; it begins as the shortcut alone."""

    def __init__(self, width: int, inner: int, stride: int) -> None:
        super().__init__()
        out = WIDER * inner
        self.down, self.across = _normed(width, inner, 1), _normed(inner, inner, 3, stride)
        self.up = _normed(inner, out, 1)
        nn.init.zeros_(self.up[1].weight)
        same = stride == 1 and width == out
        self.shortcut = nn.Identity() if same else _normed(width, out, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.across(functional.relu(self.down(x))))
        return functional.relu(self.up(y) + self.shortcut(x))


def _normed(width: int, out: int, side: int, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(width, out, side, stride, side // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out))


def network() -> nn.Module:
    parts: list[nn.Module] = [_normed(1, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for stage, (inner, blocks) in enumerate(STAGES):
        for block in range(blocks):
            parts.append(Bottleneck(width, inner, 2 if stage and not block else 1))
            width = WIDER * inner
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def build(setup: Setup) -> Training:
    def update(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    return classifying(network(), update, setup)


WORKLOAD = Workload(
    name="resnet50",
    domain=Domain.IMAGES,
    model="ResNet-50, 23.5 million parameters",
    data="Fashion-MNIST, or made images",
    quality=Quality("accuracy", 0.72),
    pace=Pace(batch=32, batches=(4, 8, 16, 32, 64), steps=400, every=20),
    build=build,
)

if __name__ == "__main__":
    train(WORKLOAD)
