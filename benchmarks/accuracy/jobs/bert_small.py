"""BERT-small's forward pass as it was traced: one sequence of 141 tokens, bfloat16, eager."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as attend

WIDTH, HEADS, INNER, LAYERS, WORDS, TOKENS = 512, 8, 2048, 4, 30522, 141


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.wide, self.narrow = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.drop, self.act = nn.Dropout(0.1), nn.GELU()

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:-1], HEADS, WIDTH // HEADS).permute(0, 2, 1, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (self.heads(f(x)) for f in (self.query, self.key, self.value))
        seen = attend(query, key, value).transpose(1, 2).reshape(x.shape)
        x = self.first(self.drop(self.out(seen)) + x)
        return self.second(self.drop(self.narrow(self.act(self.wide(x)))) + x)


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.kinds = nn.Embedding(WORDS, WIDTH), nn.Embedding(2, WIDTH)
        self.places, self.norm = nn.Embedding(512, WIDTH), nn.LayerNorm(WIDTH)
        self.drop = nn.Dropout(0.1)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.dense, self.act, self.last = nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        kinds, places = torch.zeros_like(words), torch.arange(words.shape[1])[None]
        x = self.words(words) + self.kinds(kinds)
        x += self.places(places)
        x = self.drop(self.norm(x))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.last(self.act(self.dense(x))))


if __name__ == "__main__":
    model = Bert().to(torch.bfloat16).eval()
    with torch.no_grad():
        for _ in range(4):
            model(torch.ones(1, TOKENS, dtype=torch.long))
