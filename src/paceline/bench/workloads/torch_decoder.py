"""A decoder as Llama's: grouped KV heads, rotary places, SwiGLU; it learns Python's own sources."""

from torch import nn

from paceline.bench.torch_decoding import Attention, Decoder, DecoderLayer, FeedForward, angles
from paceline.bench.torch_language import LENGTH, telling
from paceline.bench.torch_text import BYTES
from paceline.bench.torch_training import train
from paceline.bench.workload import Domain, Pace, Quality, Setup, Training, Workload

WIDTH, LAYERS, HEADS, KV_HEADS = 128, 4, 4, 2


def network() -> nn.Module:
    layers: list[nn.Module] = [
        DecoderLayer(Attention(WIDTH, HEADS, KV_HEADS), FeedForward(WIDTH, 3 * WIDTH), WIDTH)
        for _ in range(LAYERS)
    ]
    return Decoder(layers, BYTES, WIDTH, angles(LENGTH, WIDTH // HEADS))


def build(setup: Setup) -> Training:
    return telling(network(), setup)


WORKLOAD = Workload(
    name="decoder",
    domain=Domain.LANGUAGE,
    model=f"decoder, {LAYERS} layers of {WIDTH}, {HEADS} heads and {KV_HEADS} KV heads",
    data="sources of Python's standard library, bytes",
    quality=Quality("bits a byte", 2.8, at_least=False),
    pace=Pace(batch=16, batches=(2, 4, 8, 16, 32), steps=800, every=25),
    build=build,
)

if __name__ == "__main__":
    train(WORKLOAD)
