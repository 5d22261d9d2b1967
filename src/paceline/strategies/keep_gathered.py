"""FSDP2's weights stay gathered between forward and backward: one all-gather a layer, not two.
Zhao et al., "PyTorch FSDP" (VLDB 2023): `reshard_after_forward=False`, ZeRO-2's choice.

Half of the weights' traffic goes, and the fullest rank holds all weights at the end of its forward
pass. Wrong where memory then runs short, and by the copies of gathered weights that the recording
does not show as communication.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.gathered import kept_gathered
from paceline.runtime.run import Run
from paceline.strategies.strategy import Strategy


@dataclass(frozen=True)
class KeepGathered(Strategy):
    applies: ClassVar[bool] = True

    def transform(self, graph: Graph) -> Graph:
        return kept_gathered(graph)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_gathered import gathered

        return gathered(run.model)
