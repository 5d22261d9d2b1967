"""One part's replica of a graph network, its own nodes, and what a node takes of its neighbours."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from paceline.learn.graphs.network import GraphConvolution, GraphNetwork
from paceline.learn.graphs.parts import GraphPart, Parts
from paceline.learn.graphs.torch_sparse import BothWays
from paceline.learn.samples import Vector


@dataclass(frozen=True, eq=False)
class NodeData:
    """One part's own nodes."""

    features: Tensor
    labels: Tensor
    train: Tensor
    test: Tensor


def node_data(parts: Parts, part: GraphPart) -> NodeData:
    graph = parts.graph
    own = {
        name: torch.from_numpy(np.flatnonzero(np.isin(part.nodes, rows)))
        for name, rows in (("train", graph.train), ("test", graph.test))
    }
    features = torch.from_numpy(graph.features[part.nodes])
    return NodeData(features, torch.from_numpy(graph.labels[part.nodes]), **own)


@dataclass(frozen=True, eq=False)
class Mixing:
    """Of a part's own rows and of its halo: apart, for to lay both side by side costs a copy."""

    own: BothWays
    halo: BothWays


class Mixed(torch.autograd.Function):
    """What nodes take of all rows that they see."""

    @staticmethod
    def forward(ctx: Any, mixing: Mixing, own: Tensor, halo: Tensor) -> Tensor:
        ctx.mixing = mixing
        return mixing.own.there.times(own).add_(mixing.halo.there.times(halo))

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Any, Tensor, Tensor]:
        slope = slope.contiguous()
        return None, ctx.mixing.own.back.times(slope), ctx.mixing.halo.back.times(slope)


def mixing(parts: Parts, part: GraphPart, layer: GraphConvolution) -> Mixing:
    """What a node takes of its neighbours: GCN's symmetric norm, itself among them, or a mean."""
    degrees = parts.graph.degrees.astype(np.float64)
    seen = np.concatenate([part.nodes, part.halo])
    edges = part.edges
    if layer is GraphConvolution.GCN:
        loops = np.arange(len(part.nodes))
        edges = np.concatenate([edges, np.stack([loops, loops], axis=1)])
        roots = np.sqrt(degrees[seen] + 1)
        values = 1 / (roots[edges[:, 0]] * roots[edges[:, 1]])
    else:
        values = 1 / np.maximum(1, degrees[seen])[edges[:, 0]]
    nodes, own = len(part.nodes), edges[:, 1] < len(part.nodes)
    away = edges[~own] - np.array([0, nodes])
    return Mixing(
        BothWays.of(edges[own], values[own], (nodes, nodes)),
        BothWays.of(away, values[~own], (nodes, len(part.halo))),
    )


class Replica(nn.Module):
    """One replica."""

    def __init__(self, how: GraphNetwork, features: int, classes: int) -> None:
        super().__init__()
        torch.manual_seed(how.seed)
        self._widths, self._how = how.widths(features, classes), how
        pairs = list(zip(self._widths, self._widths[1:]))
        self.mixed = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairs)
        own = pairs if how.layer is GraphConvolution.SAGE else []
        self.own = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in own)
        self.bias = nn.ParameterList(nn.Parameter(torch.zeros(b)) for _, b in pairs)

    def narrows(self, number: int) -> bool:
        """GraphSAGE needs a node's own row as it is, so it never projects before."""
        return (
            self._how.layer is GraphConvolution.GCN
            and self._widths[number + 1] < self._widths[number]
        )

    def projected(self, number: int, rows: Tensor) -> Tensor:
        found: Tensor = self.mixed[number](rows)
        return found

    def layer(self, number: int, own: Tensor, mixed: Tensor, narrows: bool) -> Tensor:
        """Sums go where their products are made."""
        bias, taken = self.bias[number], self.mixed[number].weight.t()
        if self._how.layer is GraphConvolution.SAGE:
            found = nn.functional.linear(own, self.own[number].weight, bias)
            found = torch.addmm(found, mixed, taken)
        else:
            found = mixed + bias if narrows else torch.addmm(bias, mixed, taken)
        last = number == self._how.layers - 1
        return found if last else torch.relu(found)


def slopes_of(net: nn.Module) -> Vector:
    slopes = [torch.zeros_like(p) if p.grad is None else p.grad for p in net.parameters()]
    found: Vector = torch.cat([slope.reshape(-1) for slope in slopes]).numpy()
    return found


def fill(net: nn.Module, values: Tensor) -> None:
    for parameter, part in zip(
        net.parameters(), values.split([p.numel() for p in net.parameters()])
    ):
        parameter.grad = part.view_as(parameter).clone()
