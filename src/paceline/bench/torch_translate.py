"""Training of any network that writes a translation word by word."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.bench.torch_data import endless
from paceline.bench.torch_grammar import BEGIN, sentences
from paceline.bench.torch_parallel import Judging, plain, replicated, supervised
from paceline.bench.workload import Setup, Training

_TRAINED, _TESTED = 16_384, 128  # sentences


def translating(model: nn.Module, rate: float, setup: Setup) -> Training:
    """Cross entropy of each word, the ones before it given; judged by what it writes alone."""
    test = sentences(_TESTED, 2)
    whole = replicated(model, setup)
    optimizer = torch.optim.Adam(whole.parameters(), lr=rate)

    def loss(batch: tuple[Tensor, Tensor]) -> Tensor:
        source, target = batch
        given = torch.cat([torch.full_like(target[:, :1], BEGIN), target[:, :-1]], 1)
        found = whole(source, given)
        return functional.cross_entropy(found.flatten(0, 1), target.flatten(), ignore_index=0)

    data = endless(sentences(setup.samples or _TRAINED, 1), setup)
    return supervised(loss, optimizer, data, lambda: faultless(whole, test))


def faultless(model: nn.Module, test: tuple[Tensor, Tensor]) -> float:
    """The share of sentences whose every word is right, when it writes greedily."""
    source, target = test
    judged, given = plain(model), torch.full_like(target[:, :1], BEGIN)
    with Judging(judged):
        for _ in range(target.shape[1]):
            given = torch.cat([given, judged(source, given)[:, -1:].argmax(-1)], 1)
    right = (given[:, 1:] == target) | (target == 0)
    return float(right.all(1).float().mean())
