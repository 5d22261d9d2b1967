"""Samples stay in memory once they were read and decoded, so that later epochs do neither.
tf.data's `cache`; CoorDL (Mohan et al., "Analyzing and Mitigating Data Stalls", VLDB 2021).

Predicted is an epoch behind the first one, which fills the cache. Reading and decoding vanish;
copying samples into a batch stays. Workers share the samples through files in memory (`folder`),
since each epoch starts new ones. Exact where a dataset draws no random numbers: what it augments at
random is drawn once. Wrong where samples do not fit memory, by what fetching one from the cache
takes, and where a recording does not tell reading and decoding from copying (`paceline io` does).
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.condense import Grain
from paceline.graph.storage import kept_in_memory
from paceline.runtime.run import Run
from paceline.strategies.strategy import Strategy


@dataclass(frozen=True)
class Cache(Strategy):
    grain: ClassVar[Grain] = Grain.OP  # merged ops do not say what copies
    conflicts: ClassVar[frozenset[str]] = frozenset({"cache", "format"})
    applies: ClassVar[bool] = True
    in_turns: ClassVar[bool] = False

    folder: str = ""  # where workers share samples; empty: shared memory, removed in the end

    def transform(self, graph: Graph) -> Graph:
        return kept_in_memory(graph)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_samples import samples_kept

        return samples_kept(self.folder)
