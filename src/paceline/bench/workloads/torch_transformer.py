"""Encoder and decoder of the transformer (Vaswani et al. 2017), small."""

import math

import torch
from torch import Tensor, nn

from paceline.bench.torch_grammar import LONGEST, SOURCE_WORDS, TARGET_WORDS
from paceline.bench.torch_training import train
from paceline.bench.torch_translate import translating
from paceline.bench.workload import Domain, Pace, Quality, Setup, Training, Workload

WIDTH, LAYERS, HEADS = 128, 2, 4


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(SOURCE_WORDS, WIDTH)
        self.target = nn.Embedding(TARGET_WORDS, WIDTH)
        self.register_buffer("places", waves(LONGEST, WIDTH), persistent=False)
        shape = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, **shape)
        norm = nn.LayerNorm(WIDTH)
        encoder = nn.TransformerEncoder(layer, LAYERS, norm, enable_nested_tensor=False)
        self.layers = nn.Transformer(
            WIDTH, HEADS, 0, LAYERS, 4 * WIDTH, custom_encoder=encoder, **shape
        )
        self.word = nn.Linear(WIDTH, TARGET_WORDS)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """What the next word is, after each word of the target."""
        length, none = target.shape[1], source == 0
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        found = self.layers(
            self.source(source) + self.places[: source.shape[1]],
            self.target(target) + self.places[:length],
            tgt_mask=later,
            src_key_padding_mask=none,
            memory_key_padding_mask=none,
        )
        words: Tensor = self.word(found)
        return words


def waves(length: int, width: int) -> Tensor:
    """Sines and cosines of each place, as in the paper."""
    place = torch.arange(length).unsqueeze(1)
    pitch = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000) / width))
    return torch.stack([(place * pitch).sin(), (place * pitch).cos()], -1).flatten(1)


def build(setup: Setup) -> Training:
    return translating(Translator(), 1e-3, setup)


WORKLOAD = Workload(
    name="transformer",
    domain=Domain.TRANSLATION,
    model=f"transformer, {LAYERS} and {LAYERS} layers of {WIDTH}",
    data="sentences of a made grammar with order, agreement and case",
    quality=Quality("sentences translated without a fault", 0.9),
    pace=Pace(batch=64, batches=(16, 32, 64, 128, 256), steps=1500, every=50),
    build=build,
)

if __name__ == "__main__":
    train(WORKLOAD)
