"""Gradients travel over a transport of ours, on which a bounded share of what the network loses is
done without. Wang et al., "Domain-specific Communication Optimization for Distributed DNN Training"
(DLCP, 2020); "Towards Domain-Specific Network Transport for Distributed DNN Training" (MLT, 2024).

Each bucket is scattered to the ranks, which add up what came and scale it to all of them, and
gathered again, in which nothing is lost. A network that loses nothing costs no value.

Between hosts it is predicted by the packet simulator (`wire.fabric`): queues, losses, repairs, and
what the budget spares. Where workers share one machine's cores `paceline measure --lab` measures
what the transport takes of them. Wrong where TCP's own waits matter, for what it replaces is still
priced by rates and sizes alone; where a port's queue holds less than its link carries in a
millisecond; and where `wire.fabric.exchange` is.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from paceline.cluster import Network
from paceline.cluster.tcp import queue_bytes
from paceline.cost import Carrier
from paceline.cost.collectives import Call
from paceline.graph import Collective, Graph
from paceline.graph.servers import with_servers
from paceline.runtime.run import Run
from paceline.strategies.coded import CODECS
from paceline.strategies.strategy import Effect, Strategy, StrategyError

_OTHER_WAYS = frozenset({
    "parameter_server", "hierarchical", "priority", "partition", "fused_step", "local_sgd",
    "overlap_local_sgd", "diloco", "zero1",
})  # fmt: skip


@dataclass(frozen=True)
class BoundedLoss(Strategy):
    effect: ClassVar[Effect] = Effect.LOSSY
    conflicts: ClassVar[frozenset[str]] = CODECS | _OTHER_WAYS | {"bounded_loss"}
    follows: ClassVar[frozenset[str]] = frozenset({
        "accumulate", "buckets", "early_update", "late_gradients", "overlap_update", "remodelling",
    })  # fmt: skip
    applies: ClassVar[bool] = True

    gradients: float = 0.01  # share of a bucket that may be lost on its way to be added up
    parameters: float = 0.0  # of the sums on their way back; all ranks keep the step before's
    important: float = 0.1  # share of each layer's packets, the largest, that must arrive
    link_mbit_per_s: float = 1000.0  # of each worker's host, which its senders share

    def __post_init__(self) -> None:
        for name in ("gradients", "parameters", "important"):
            if not 0 <= getattr(self, name) <= 1:
                raise StrategyError(
                    f"{name}={getattr(self, name)} was given; give a share from 0 to 1"
                )
        if self.link_mbit_per_s <= 0:
            raise StrategyError(f"a link of {self.link_mbit_per_s} Mbit/s; give more than 0")

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """None: no recording tells a link's rate, or what it loses, so that users name it."""
        return iter(())

    def transform(self, graph: Graph) -> Graph:
        """The bytes of a push to, and a pull from, servers that are the ranks themselves."""
        return with_servers(graph)

    def carriers(self) -> Mapping[Collective, Carrier]:
        return {
            Collective.PUSH: partial(self._exchange_ns, self.gradients),
            Collective.PULL: partial(self._exchange_ns, self.parameters),
        }

    def _exchange_ns(self, budget: float, call: Call, network: Network) -> float:
        """Each member sends each other one its share of the bucket."""
        from paceline.wire.fabric import EqualExchange, Links, Tolerance, exchange_ns

        cluster = network.cluster
        link = min(
            (cluster.link_of(host) for host in set(call.hosts)),
            key=lambda link: min(link.free_up_bytes_per_s, link.free_down_bytes_per_s),
        )
        rate = min(link.free_up_bytes_per_s, link.free_down_bytes_per_s)
        links = Links(
            round(8 * rate), link.latency_ns, queue_bytes(link), link.loss, cluster.switch
        )
        members = tuple(Counter(call.hosts).values())
        share = -(-call.size_bytes // call.members)
        return exchange_ns(EqualExchange(members, share, Tolerance(budget, self.important)), links)

    def rests_on(self, graph: Graph) -> Iterable[str]:
        yield "bounded_loss: its packets, simulated over links that are all as the slowest"

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.wire import Bounds, Tuning
        from paceline.wire.torch_carrier import Carriage, carried

        bounds = Bounds(self.gradients, self.parameters)
        how = Carriage(bounds, Tuning.of_link(1e6 * self.link_mbit_per_s), top=self.important)

        def carrier(group: Any) -> Any:
            return carried(group, how)

        return run.exchange.with_carrier(carrier)
