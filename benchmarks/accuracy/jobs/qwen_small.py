"""The forward pass of Qwen1.5-0.5B without its head, as it was traced: 16 sequences of 559 tokens,
bfloat16, eager, as Hugging Face writes it."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as attend

WIDTH, HEADS, INNER, LAYERS, WORDS, BATCH, TOKENS = 1024, 16, 2816, 24, 151936, 16, 559


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


def turned(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down, self.act = nn.Linear(INNER, WIDTH, bias=False), nn.SiLU()
        self.first, self.second = Norm(), Norm()

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(BATCH, TOKENS, HEADS, WIDTH // HEADS).transpose(1, 2)

    def attended(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        query, key, value = (self.heads(f(x)) for f in (self.query, self.key, self.value))
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        query = query * cos + turned(query) * sin
        key = key * cos + turned(key) * sin
        seen = attend(query, key, value.contiguous(), is_causal=True)
        return self.out(seen.transpose(1, 2).reshape(x.shape))

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.attended(self.first(x), cos, sin)
        inner = self.second(x)
        return x + self.down(self.act(self.gate(inner)) * self.up(inner))


class Qwen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = Norm()
        self.register_buffer("turns", torch.ones(1, WIDTH // HEADS // 2, 1))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words)
        places = torch.arange(TOKENS)[None, None].float()
        angles = (self.turns.float() @ places).transpose(1, 2)
        both = torch.cat((angles, angles), dim=-1)
        cos, sin = both.cos().to(x.dtype), both.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


if __name__ == "__main__":
    model = Qwen().to(torch.bfloat16).eval()
    with torch.no_grad():
        for _ in range(4):
            model(torch.ones(BATCH, TOKENS, dtype=torch.long))
