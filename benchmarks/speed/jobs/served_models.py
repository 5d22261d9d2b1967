"""Models that the serving benchmark plans for: the published shapes, with random weights."""

from typing import Any

import torch
from torch import nn

TOKENS = 32


def resnet50() -> tuple[nn.Module, torch.Tensor]:
    from torchvision.models import resnet50 as made

    return made(weights=None), torch.randn(1, 3, 224, 224)


def bert_base() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig()), {"input_ids": torch.arange(TOKENS)[None]}


def gpt2() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    from transformers import GPT2Config, GPT2Model

    return GPT2Model(GPT2Config(use_cache=False)), {"input_ids": torch.arange(TOKENS)[None]}


class Small(nn.Module):
    """Some milliseconds on a core: for many requests under load."""

    def __init__(self) -> None:
        super().__init__()
        wide: list[Any] = [nn.Conv2d(3, 32, 3, 2), nn.ReLU()]
        for _ in range(4):
            wide += [nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()]
        self.layers = nn.Sequential(*wide, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


def small() -> tuple[nn.Module, torch.Tensor]:
    return Small(), torch.randn(1, 3, 96, 96)
