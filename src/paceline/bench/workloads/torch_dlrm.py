"""A recommender as DLRM (Naumov et al. 2019): embedding bags, their products, two MLPs.

Many workers cut the tables among them: indices go to the tables' owners and pooled rows come back,
each by an all-to-all; the MLPs are data-parallel. Clicks are made from hidden tastes.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.bench.torch_data import drawn, endless
from paceline.bench.torch_exchange import exchanged, moved
from paceline.bench.torch_parallel import Judging, plain, replicated, supervised
from paceline.bench.torch_training import train
from paceline.bench.workload import Domain, Pace, Quality, Setup, Spread, Training, Workload

ROWS = (4000, 2000, 2000, 1000, 1000, 500, 500, 200)  # of each table
BAG, WIDTH, DENSE = 3, 32, 13
_TRAINED, _TESTED = 65_536, 2048

Batch = tuple[Tensor, Tensor, Tensor]
"""Dense features, the indices of each table's bag, clicked or not."""


class Tables(nn.Module):
    """The tables that this worker owns: every so manieth."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self._mine = range(setup.rank, len(ROWS), setup.workers)
        self._workers = setup.workers
        bags = [nn.EmbeddingBag(count, WIDTH, mode="sum") for count in ROWS]
        for bag in bags:
            nn.init.normal_(bag.weight, std=0.05)
        self.bags = nn.ModuleList(bags[table] for table in self._mine)

    def forward(self, indices: Tensor) -> Tensor:
        """Rows of all tables for this worker's samples, one after the other."""
        if self._workers == 1:
            return self._pooled(indices)
        samples, counts = len(indices), self._counts(len(indices))
        order = [t for rank in range(self._workers) for t in self._tables(rank)]
        asked = indices.transpose(0, 1)[order].flatten(0, 1)
        mine = [samples * len(self._mine)] * self._workers
        wanted = moved(asked, counts, mine)
        by_sender = wanted.view(self._workers, len(self._mine), samples, BAG)
        pooled = self._pooled(by_sender.transpose(1, 2).flatten(0, 1))
        back = pooled.view(self._workers, samples, len(self._mine), WIDTH).transpose(1, 2)
        rows = exchanged(back.flatten(0, 2), mine, counts).view(len(ROWS), samples, WIDTH)
        return rows[torch.tensor(order).argsort()].transpose(0, 1)

    def _pooled(self, indices: Tensor) -> Tensor:
        return torch.stack([bag(indices[:, at]) for at, bag in enumerate(self.bags)], 1)

    def _tables(self, rank: int) -> range:
        return range(rank, len(ROWS), self._workers)

    def _counts(self, samples: int) -> list[int]:
        return [samples * len(self._tables(rank)) for rank in range(self._workers)]


class Recommender(nn.Module):
    def __init__(self, setup: Setup) -> None:
        super().__init__()
        parts = 1 + len(ROWS)
        self.tables = Tables(setup)
        self.bottom = _mlp(DENSE, 64, WIDTH)
        self.top = _mlp(WIDTH + parts * (parts - 1) // 2, 128, 1)
        self.register_buffer("pairs", torch.tril_indices(parts, parts, -1), persistent=False)

    def forward(self, dense: Tensor, indices: Tensor) -> Tensor:
        below = self.bottom(dense)
        rows = torch.cat([below.unsqueeze(1), self.tables(indices)], 1)
        products = (rows @ rows.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        found: Tensor = self.top(torch.cat([below, products], 1)).squeeze(1)
        return found


def _mlp(given: int, inner: int, out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(given, inner), nn.ReLU(), nn.Linear(inner, out))


def build(setup: Setup) -> Training:
    if setup.workers > len(ROWS):
        raise ValueError(f"{len(ROWS)} tables cannot be cut among {setup.workers} workers")
    test, model = clicks(_TESTED, 2), replicated(Recommender(setup), setup, own=("tables.",))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def loss(batch: Batch) -> Tensor:
        dense, indices, clicked = batch
        return functional.binary_cross_entropy_with_logits(model(dense, indices), clicked)

    data = endless(clicks(setup.samples or _TRAINED, 1), setup)
    return supervised(loss, optimizer, data, lambda: area_under_curve(model, test))


def clicks(count: int, seed: int) -> Batch:
    """Few rows of a table are asked for often. Each row has a hidden taste: who likes one thing
    likes what agrees with it."""
    random, hidden = drawn(seed), drawn(0)
    dense = torch.randn(count, DENSE, generator=random)
    spread = torch.rand(count, len(ROWS), BAG, generator=random) ** 3
    indices = (spread * torch.tensor(ROWS).unsqueeze(1)).long()
    liking = dense @ (0.3 * torch.randn(DENSE, generator=hidden))
    tastes = torch.zeros(count, len(ROWS), 4)
    for table, rows in enumerate(ROWS):
        bias, taste = (torch.randn(rows, n, generator=hidden) for n in (1, 4))
        liking += 0.5 * bias[indices[:, table]].sum((1, 2))
        tastes[:, table] = taste[indices[:, table]].mean(1)
    liking += 0.5 * (tastes[:, ::2] * tastes[:, 1::2]).sum((1, 2))
    clicked = torch.rand(count, generator=random) < torch.sigmoid(2 * liking)
    return dense, indices, clicked.float()


def area_under_curve(model: nn.Module, test: Batch) -> float:
    """The chance that what was clicked is ranked above what was not (ROC AUC)."""
    dense, indices, clicked = test
    with Judging(plain(model)):
        scores = plain(model)(dense, indices)
    ranks = scores.argsort().argsort().double() + 1
    yes = int(clicked.sum())
    above = float(ranks[clicked > 0].sum()) - yes * (yes + 1) / 2
    return above / max(1, yes * (len(clicked) - yes))


WORKLOAD = Workload(
    name="dlrm",
    domain=Domain.RECOMMENDATION,
    model=f"DLRM, {len(ROWS)} embedding tables of width {WIDTH}, two MLPs",
    data="made clicks with hidden tastes",
    quality=Quality("area under the ROC curve", 0.85),
    pace=Pace(batch=128, batches=(32, 64, 128, 256, 512), steps=3000, every=100),
    build=build,
    spread=Spread.TABLES,
)

if __name__ == "__main__":
    train(WORKLOAD)
