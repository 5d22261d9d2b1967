"""Models that the serving benchmark plans for: the published shapes, with random weights."""

from typing import Any

import torch
from torch import nn

TOKENS, WIDTH = 32, 768


class Bottleneck(nn.Module):
    """ResNet's block of 1 x 1, 3 x 3 and 1 x 1, four times as wide behind as within."""

    def __init__(self, given: int, width: int, stride: int) -> None:
        super().__init__()
        made = 4 * width
        self.body = nn.Sequential(
            *_normed(given, width, 1), nn.ReLU(),
            *_normed(width, width, 3, stride), nn.ReLU(),
            *_normed(width, made, 1),
        )  # fmt: skip
        same = given == made and stride == 1
        self.beside = nn.Sequential() if same else nn.Sequential(*_normed(given, made, 1, stride))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(images) + self.beside(images))


def _normed(given: int, made: int, size: int, stride: int = 1) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(given, made, size, stride, size // 2, bias=False), nn.BatchNorm2d(made)


def resnet50() -> tuple[nn.Module, torch.Tensor]:
    """As torchvision's ResNet-50 v1.5, whose wheel on PyPI needs a torch built for CUDA."""
    blocks: list[nn.Module] = [*_normed(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    given = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for number in range(count):
            width, stride = 64 << stage, 2 if stage and not number else 1
            blocks.append(Bottleneck(given, width, stride))
            given = 4 * width
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(given, 1000))
    return nn.Sequential(*blocks, *head), torch.randn(1, 3, 224, 224)


class Tokens(nn.Module):
    """A transformer over tokens: embeddings, twelve layers of width 768, a norm behind them."""

    def __init__(self, words: int, positions: int, *, causal: bool) -> None:
        super().__init__()
        # the fast path is one operator, which no exporter knows
        torch.backends.mha.set_fastpath_enabled(False)
        self.words, self.places = nn.Embedding(words, WIDTH), nn.Embedding(positions, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 12, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=causal
        )
        self.layers = nn.TransformerEncoder(layer, 12, nn.LayerNorm(WIDTH), False)
        self.causal = causal

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        given = self.words(ids) + self.places.weight[:length]
        mask = nn.Transformer.generate_square_subsequent_mask(length) if self.causal else None
        return self.layers(given, mask, is_causal=self.causal)


def bert_base() -> tuple[nn.Module, torch.Tensor]:
    """BERT-base: its encoder's last layer."""
    return Tokens(30522, 512, causal=False), torch.arange(TOKENS)[None]


def gpt2() -> tuple[nn.Module, torch.Tensor]:
    """GPT-2 of 124 million parameters, reading a prompt: logits of the next token."""
    body = Tokens(50257, 1024, causal=True)
    return nn.Sequential(body, Next(body.words)), torch.arange(TOKENS)[None]


class Next(nn.Module):
    """Logits of the token behind the last, by the embedding's own weights."""

    def __init__(self, words: nn.Embedding) -> None:
        super().__init__()
        self.words = words

    def forward(self, layers: torch.Tensor) -> torch.Tensor:
        return layers[:, -1] @ self.words.weight.T


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
