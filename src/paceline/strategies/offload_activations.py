"""What layers keep for the backward pass waits in host memory, and comes back a layer ahead.
Rhu et al., "vDNN: Virtualized Deep Neural Networks" (MICRO 2016).

Copies run beside the kernels, each way on a stream of its own; a layer's backward pass waits for
its own. `link` names the datasheet of what joins host and device. Wrong where both ways or several
devices share that link, where copies slow kernels, and where host memory is not pinned.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.cluster.files import link as preset
from paceline.graph import Graph, LaneKind
from paceline.graph.condense import Grain
from paceline.graph.offloaded import offloaded
from paceline.runtime.run import Run
from paceline.strategies.strategy import KEEPERS, Strategy, StrategyError


@dataclass(frozen=True)
class OffloadActivations(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    conflicts: ClassVar[frozenset[str]] = KEEPERS
    applies: ClassVar[bool] = True
    frees_memory: ClassVar[bool] = True

    link: str = "pcie-4"

    def transform(self, graph: Graph) -> Graph:
        joins = preset(self.link, "fabrics")
        rate = min(joins.up_bytes_per_s, joins.down_bytes_per_s)
        return offloaded(graph, lambda size: round(1e9 * size / rate) + joins.latency_ns)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        if (graph.lanes.kind == LaneKind.STREAM).any():
            yield cls()

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_offload import offloading

        if not any(parameter.is_cuda for parameter in run.model.parameters()):
            raise StrategyError(
                "activations already are in host memory: the model's weights are there too. "
                "Train on an accelerator, or leave offload_activations out."
            )
        return offloading(run.model)
