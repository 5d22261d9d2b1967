"""A mixture of experts (as GShard and Mixtral): each token goes to two of eight feed-forwards.

Many workers cut the experts among them: tokens go to their experts' owners and come back, each by
an all-to-all of as many rows as were routed there; all else is data-parallel.
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from paceline.bench.torch_decoding import Attention, Decoder, DecoderLayer, FeedForward, angles
from paceline.bench.torch_exchange import exchanged
from paceline.bench.torch_language import LENGTH, telling
from paceline.bench.torch_text import BYTES
from paceline.bench.torch_training import train
from paceline.bench.workload import Domain, Pace, Quality, Setup, Spread, Training, Workload

WIDTH, LAYERS, HEADS, KV_HEADS = 96, 3, 4, 2
EXPERTS, CHOSEN = 8, 2
_BALANCE = 0.01


class Experts(nn.Module):
    """Routing, and those experts that this worker owns."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self._workers = setup.workers
        self._local = EXPERTS // setup.workers
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        made = [FeedForward(WIDTH, 2 * WIDTH) for _ in range(EXPERTS)]
        first = setup.rank * self._local
        self.experts = nn.ModuleList(made[first : first + self._local])
        self.uneven: Tensor = torch.zeros(())  # the loss of balance of the last pass

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        chances = self.router(tokens).softmax(-1)
        weight, expert = chances.topk(CHOSEN)
        self.uneven = _BALANCE * unevenness(chances, expert)
        order = expert.flatten().argsort()
        sent = tokens[order // CHOSEN]
        counts = expert.flatten().bincount(minlength=EXPERTS)
        done = torch.empty_like(sent).index_copy(0, order, self._done(sent, counts))
        share = (weight / weight.sum(-1, keepdim=True)).unsqueeze(-1)
        return (done.view(-1, CHOSEN, WIDTH) * share).sum(1).view_as(x)

    def _done(self, sent: Tensor, counts: Tensor) -> Tensor:
        """What the experts make of rows in the order of their experts."""
        if self._workers == 1:
            return self._worked(sent, counts.tolist())
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts)
        given = counts.view(self._workers, -1).sum(1).tolist()
        taken = theirs.view(self._workers, -1).sum(1).tolist()
        rows = exchanged(sent, given, taken)
        local = torch.arange(self._local).repeat(self._workers).repeat_interleave(theirs)
        order = local.argsort(stable=True)
        worked = self._worked(rows[order], local.bincount(minlength=self._local).tolist())
        return exchanged(torch.empty_like(rows).index_copy(0, order, worked), taken, given)

    def _worked(self, rows: Tensor, counts: list[int]) -> Tensor:
        parts = zip(self.experts, rows.split(counts))
        return torch.cat([expert(part) for expert, part in parts])


def unevenness(chances: Tensor, expert: Tensor) -> Tensor:
    """One where all experts get as much, more elsewhere (Fedus et al. 2021)."""
    part = expert.flatten().bincount(minlength=EXPERTS) / expert.numel()
    return EXPERTS * (part * chances.mean(0)).sum()


def build(setup: Setup) -> Training:
    if EXPERTS % setup.workers:
        raise ValueError(f"{EXPERTS} experts cannot be cut among {setup.workers} workers")
    routed = [Experts(setup) for _ in range(LAYERS)]
    layers: list[nn.Module] = [
        DecoderLayer(Attention(WIDTH, HEADS, KV_HEADS), experts, WIDTH) for experts in routed
    ]
    model = Decoder(layers, BYTES, WIDTH, angles(LENGTH, WIDTH // HEADS))
    own = tuple(f"layers.{number}.then.experts." for number in range(LAYERS))
    return telling(model, setup, own, lambda: torch.stack([e.uneven for e in routed]).sum())


WORKLOAD = Workload(
    name="moe",
    domain=Domain.LANGUAGE,
    model=f"decoder of {LAYERS} layers, each with {EXPERTS} experts of which {CHOSEN} are chosen",
    data="sources of Python's standard library, bytes",
    quality=Quality("bits a byte", 2.9, at_least=False),
    pace=Pace(batch=16, batches=(2, 4, 8, 16, 32), steps=800, every=25),
    build=build,
    spread=Spread.EXPERTS,
)

if __name__ == "__main__":
    train(WORKLOAD)
