"""A graph convolution network (Kipf and Welling 2017), trained on the whole graph at each step.

Many workers cut the nodes among them; before each layer they gather all nodes' features, and each
sums up what arrives at its own nodes. The graph is made: communities, mostly joined within, with
features that tell little by themselves. A twentieth of the nodes is labelled.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from paceline.bench.torch_data import drawn
from paceline.bench.torch_exchange import gathered
from paceline.bench.torch_parallel import Judging, plain, replicated, supervised
from paceline.bench.torch_training import train
from paceline.bench.workload import Domain, Pace, Quality, Setup, Spread, Training, Workload

CLASSES, FEATURES, WIDTH = 8, 64, 64
EDGES = 8  # of a node, each way counted
_WITHIN, _TELLING, _LABELLED = 0.55, 0.2, 0.05


@dataclass(frozen=True, eq=False)
class OwnedNodes:
    """The nodes that a worker owns, and the edges that end in them."""

    features: Tensor
    classes: Tensor
    labelled: Tensor
    source: Tensor  # of all nodes
    target: Tensor  # of the owned ones
    weight: Tensor


class Convolutions(nn.Module):
    """Two layers of: gather, sum up by edges, multiply."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, part: OwnedNodes) -> Tensor:
        seen = functional.relu(arrived(self.first(part.features), part))
        return arrived(self.second(seen), part)


def arrived(mine: Tensor, part: OwnedNodes) -> Tensor:
    """The weighted sum over each owned node's neighbours."""
    whole = gathered(mine) if dist.is_initialized() else mine
    sent = whole[part.source] * part.weight.unsqueeze(1)
    return torch.zeros_like(mine).index_add(0, part.target, sent)


def build(setup: Setup) -> Training:
    part = part_of(setup)
    model = replicated(Convolutions(), setup)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    all_labelled = total(part.labelled) / setup.workers

    def loss(given: OwnedNodes) -> Tensor:
        scores = model(given)[given.labelled]
        whole = functional.cross_entropy(scores, given.classes[given.labelled], reduction="sum")
        return whole / all_labelled

    def graphs() -> Iterator[OwnedNodes]:
        while True:
            yield part

    return supervised(loss, optimizer, graphs(), lambda: accuracy(model, part))


def part_of(setup: Setup) -> OwnedNodes:
    """This worker's `setup.batch` nodes of a graph that grows with the workers."""
    own, nodes, random = setup.batch, setup.batch * setup.workers, drawn(1)
    classes = torch.randint(CLASSES, (nodes,), generator=random)
    middles = _TELLING * torch.randn(CLASSES, FEATURES, generator=random)
    features = middles[classes] + torch.randn(nodes, FEATURES, generator=random)
    source, target = edges(classes, random)
    degree = target.bincount(minlength=nodes).float()
    weight = (degree[source] * degree[target]).rsqrt()
    labelled = torch.rand(nodes, generator=random) < _LABELLED
    first = setup.rank * own
    mine, here = slice(first, first + own), (target >= first) & (target < first + own)
    return OwnedNodes(
        features[mine], classes[mine], labelled[mine], source[here], target[here] - first,
        weight[here],
    )  # fmt: skip


def edges(classes: Tensor, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Both directions of each, and every node to itself. Most lead to a node of the same class."""
    nodes = len(classes)
    count = nodes * EDGES // 2
    one = torch.randint(nodes, (count,), generator=random)
    order = classes.argsort()
    begins = torch.searchsorted(classes[order], torch.arange(CLASSES + 1))
    sizes = begins.diff()
    pick = (torch.rand(count, generator=random) * sizes[classes[one]]).long()
    like = order[begins[classes[one]] + pick]
    any_ = torch.randint(nodes, (count,), generator=random)
    other = torch.where(torch.rand(count, generator=random) < _WITHIN, like, any_)
    itself = torch.arange(nodes)
    return torch.cat([one, other, itself]), torch.cat([other, one, itself])


def accuracy(model: nn.Module, part: OwnedNodes) -> float:
    """Over all nodes without a label, of all workers."""
    with Judging(plain(model)):
        right = (plain(model)(part).argmax(1) == part.classes) & ~part.labelled
    return total(right) / total(~part.labelled)


def total(chosen: Tensor) -> float:
    """How many are chosen, over all workers."""
    count = chosen.sum().double()
    if dist.is_initialized():
        dist.all_reduce(count)
    return float(count)


WORKLOAD = Workload(
    name="gnn",
    domain=Domain.GRAPHS,
    model=f"two graph convolutions of width {WIDTH}, the whole graph at each step",
    data=f"a made graph of communities, {EDGES} edges a node; the batch is a worker's nodes",
    quality=Quality("accuracy on nodes without a label", 0.85),
    pace=Pace(batch=8192, batches=(2048, 4096, 8192, 16384, 32768), steps=600, every=20),
    build=build,
    spread=Spread.NODES,
)

if __name__ == "__main__":
    train(WORKLOAD)
