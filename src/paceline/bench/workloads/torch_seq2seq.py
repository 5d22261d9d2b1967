"""LSTM with attention (Luong et al. 2015): every word of the translation looks at the source."""

import torch
from torch import Tensor, nn

from paceline.bench.torch_grammar import SOURCE_WORDS, TARGET_WORDS
from paceline.bench.torch_training import train
from paceline.bench.torch_translate import translating
from paceline.bench.workload import Domain, Pace, Quality, Setup, Training, Workload

WIDTH = 128


class Seq2Seq(nn.Module):
    """The decoder's state asks, the encoder's states of both directions answer."""

    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(SOURCE_WORDS, WIDTH, padding_idx=0)
        self.target = nn.Embedding(TARGET_WORDS, WIDTH, padding_idx=0)
        self.encoder = nn.LSTM(WIDTH, WIDTH // 2, bidirectional=True, batch_first=True)
        self.decoder = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.ask = nn.Linear(WIDTH, WIDTH, bias=False)
        self.join = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.Tanh())
        self.word = nn.Linear(WIDTH, TARGET_WORDS)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """What the next word is, after each word of the target."""
        states, (last, cell) = self.encoder(self.source(source))
        begin = tuple(each.transpose(0, 1).flatten(1).unsqueeze(0) for each in (last, cell))
        found, _ = self.decoder(self.target(target), begin)
        scores = self.ask(found) @ states.transpose(1, 2)
        seen = scores.masked_fill((source == 0).unsqueeze(1), -1e4).softmax(-1) @ states
        words: Tensor = self.word(self.join(torch.cat([found, seen], -1)))
        return words


def build(setup: Setup) -> Training:
    return translating(Seq2Seq(), 3e-3, setup)


WORKLOAD = Workload(
    name="seq2seq",
    domain=Domain.TRANSLATION,
    model=f"LSTM with attention, width {WIDTH}",
    data="sentences of a made grammar with order, agreement and case",
    quality=Quality("sentences translated without a fault", 0.9),
    pace=Pace(batch=64, batches=(16, 32, 64, 128, 256), steps=1500, every=50),
    build=build,
)

if __name__ == "__main__":
    train(WORKLOAD)
