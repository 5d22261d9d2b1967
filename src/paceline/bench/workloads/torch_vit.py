"""A small vision transformer (Dosovitskiy et al. 2021): 16 patches, six layers."""

import torch
from torch import Tensor, nn

from paceline.bench.torch_classify import classifying
from paceline.bench.torch_images import CLASSES, SIDE
from paceline.bench.torch_training import train
from paceline.bench.workload import Domain, Pace, Quality, Setup, Training, Workload

PATCH = 7
WIDTH, LAYERS, HEADS = 128, 6, 4


class VisionTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        patches = (SIDE // PATCH) ** 2
        self.patch = nn.Conv2d(1, WIDTH, PATCH, PATCH)
        self.place = nn.Parameter(0.02 * torch.randn(1, patches, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True,
            norm_first=True,
        )  # fmt: skip
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES))

    def forward(self, pixels: Tensor) -> Tensor:
        tokens = self.patch(pixels).flatten(2).transpose(1, 2) + self.place
        found: Tensor = self.head(self.layers(tokens).mean(1))
        return found


def build(setup: Setup) -> Training:
    def update(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)

    return classifying(VisionTransformer(), update, setup)


WORKLOAD = Workload(
    name="vit",
    domain=Domain.IMAGES,
    model="vision transformer, 6 layers of 128, 1.2 million parameters",
    data="Fashion-MNIST, or made images",
    quality=Quality("accuracy", 0.77),
    pace=Pace(batch=64, batches=(16, 32, 64, 128, 256), steps=500, every=25),
    build=build,
)

if __name__ == "__main__":
    train(WORKLOAD)
