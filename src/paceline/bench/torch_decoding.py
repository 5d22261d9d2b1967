"""Layers of today's decoders: RMS norm, rotary places, attention with few KV heads, SwiGLU."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Norm(nn.Module):
    """Root mean square norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight, 1e-6)


class Attention(nn.Module):
    """Several heads ask each head of keys and values (grouped queries)."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self._head, self._shared = width // heads, heads // kv_heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, kv_heads * self._head, bias=False)
        self.value = nn.Linear(width, kv_heads * self._head, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        query, key, value = (self._split(each(x)) for each in (self.query, self.key, self.value))
        key, value = (
            each.repeat_interleave(self._shared, 1) for each in (turned(key, turns), value)
        )
        mixed = functional.scaled_dot_product_attention(
            turned(query, turns), key, value, is_causal=True
        )
        found: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return found

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self._head)).transpose(1, 2)


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.down(functional.silu(self.gate(x)) * self.up(x))
        return found


class DecoderLayer(nn.Module):
    """Attention and another part, each behind a norm and beside a shortcut."""

    def __init__(self, attention: Attention, then: nn.Module, width: int) -> None:
        super().__init__()
        self.first, self.second = Norm(width), Norm(width)
        self.attention, self.then = attention, then

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        x = x + self.attention(self.first(x), turns)
        y: Tensor = x + self.then(self.second(x))
        return y


class Decoder(nn.Module):
    """Words, layers, a norm, and scores of the next word by the words' own vectors."""

    def __init__(self, layers: list[nn.Module], words: int, width: int, turns: Tensor) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        nn.init.normal_(self.words.weight, std=0.02)
        self.layers, self.norm = nn.ModuleList(layers), Norm(width)
        self.register_buffer("turns", turns, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x, self.turns[:, : tokens.shape[1]])
        return functional.linear(self.norm(x), self.words.weight)


def angles(length: int, width: int) -> Tensor:
    """Cosine and sine by which each pair of a head is turned at each place."""
    pitch = 10_000.0 ** -(torch.arange(0, width, 2) / width)
    angle = torch.outer(torch.arange(length).float(), pitch)
    return torch.stack([angle.cos(), angle.sin()])


def turned(x: Tensor, turns: Tensor) -> Tensor:
    """Rotary places (Su et al. 2021)."""
    one, other = x.chunk(2, -1)
    cos, sin = turns
    return torch.cat([one * cos - other * sin, other * cos + one * sin], -1)
