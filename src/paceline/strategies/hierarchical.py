"""Gradients reduced inside each host, exchanged across hosts, and handed out inside. Cho et al.,
"BlueConnect" (MLSys 2019).

Slow links between hosts carry each gradient once a host and not once a worker. Gloo has no
reduce-scatter of its own, so a host's first worker takes the sum, exchanges it with those of the
other hosts and broadcasts it; on a device's streams each worker exchanges its share of it.
`on_host` workers with neighbouring ranks share a host, as launchers number them.

Wrong where workers stand otherwise on hosts, and where memory inside a host is no faster than the
network: then it only adds collectives.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.gradients import reducing
from paceline.graph.hierarchy import in_levels
from paceline.graph.links import Links
from paceline.runtime.run import Run
from paceline.strategies.coded import CODECS
from paceline.strategies.strategy import Strategy


@dataclass(frozen=True)
class Hierarchical(Strategy):
    conflicts: ClassVar[frozenset[str]] = CODECS | {
        "hierarchical",
        "overlap_update",
        "parameter_server",
        "priority",
    }
    follows: ClassVar[frozenset[str]] = frozenset(
        {"accumulate", "buckets", "late_gradients", "partition", "remodelling", "workers"}
    )
    applies: ClassVar[bool] = True

    on_host: int  # workers

    def transform(self, graph: Graph) -> Graph:
        return in_levels(graph, self.on_host)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """Every way to put the workers on hosts of more than one."""
        calls = reducing(graph, Links.of(graph))
        members = len(graph.groups[int(graph.ops.group[calls[0]])].ranks) if len(calls) else 0
        return (cls(n) for n in range(2, members + 1) if members % n == 0)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_levels(self.on_host)
