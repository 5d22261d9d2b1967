"""Training of any network that tells the next byte of a text."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.bench.torch_data import endless
from paceline.bench.torch_parallel import Judging, plain, replicated, supervised
from paceline.bench.torch_text import text, windows
from paceline.bench.workload import Setup, Training

LENGTH = 96
_TESTED = 48  # windows


def telling(
    model: nn.Module,
    setup: Setup,
    own: tuple[str, ...] = (),
    beside: Callable[[], Tensor] | None = None,
) -> Training:
    """Cross entropy, and what else the model asks for beside it; judged in bits a byte."""
    test, whole = (
        windows(text(tested=True), LENGTH, LENGTH)[:_TESTED],
        replicated(model, setup, own),
    )
    optimizer = torch.optim.AdamW(whole.parameters(), lr=3e-3, betas=(0.9, 0.95))

    def loss(batch: tuple[Tensor]) -> Tensor:
        found = surprise(whole(batch[0][:, :-1]), batch[0])
        return found + beside() if beside is not None else found

    def score() -> float:
        with Judging(plain(whole)):
            return float(surprise(plain(whole)(test[:, :-1]), test)) / math.log(2)

    data = endless((windows(text(), LENGTH, LENGTH // 2),), setup)
    return supervised(loss, optimizer, data, score)


def surprise(scores: Tensor, tokens: Tensor) -> Tensor:
    return functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
