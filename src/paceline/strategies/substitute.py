"""Operators in place of others that give the same numbers, by a list of rules. Jia et al.,
"Optimizing DNN Computation with Relaxed Graph Substitutions" (MetaFlow, 2019), as in Daydream.

`pool_before_relu`: a maximum is taken before what is below zero is cut, so a quarter of the numbers
is cut. `relu_in_place`: a ReLU overwrites what a linear layer, a convolution, a batch norm or a
pooling gave it, so that it writes to memory that is at hand. Both hold for neighbours in an
`nn.Sequential`. Wrong where pooling windows are not 2 x 2, and where memory's traffic does not
decide a ReLU's time.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.condense import Grain
from paceline.graph.substitution import Rule, matches, substituted
from paceline.runtime.run import Run
from paceline.strategies.strategy import Strategy, StrategyError

_RELU = frozenset({"aten::relu"})
_POOL = frozenset({"aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d"})
_GIVES = frozenset({"aten::linear", "aten::conv1d", "aten::conv2d", "aten::conv3d",
                    "aten::batch_norm"})  # fmt: skip

RULES = (
    Rule("pool_before_relu", (_RELU, _POOL), 0, 1 / 4, 1 / 4, "one of four numbers is left"),
    Rule("relu_in_place", (_GIVES | _POOL, _RELU), 1, 2 / 3, 1.0,
         "memory is read and written, and no new lines are fetched to be written"),
)  # fmt: skip
"""In the order in which they are made: the second may hold for what the first moved."""


@dataclass(frozen=True)
class Substitute(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    conflicts: ClassVar[frozenset[str]] = frozenset({"substitute"})
    applies: ClassVar[bool] = True

    rules: str = "*"  # names, with * and ?, apart by |

    def __post_init__(self) -> None:
        if not self._chosen():
            known = ", ".join(rule.name for rule in RULES)
            raise StrategyError(f"no rule is called {self.rules!r}; there are {known}")

    def transform(self, graph: Graph) -> Graph:
        found = matches(graph, self._chosen())
        if not found:
            names = " and ".join(rule.name for rule in self._chosen())
            raise StrategyError(
                f"{names} holds nowhere in the recording: it has no such layers side by side in a "
                "sequence, or does not tell which ops belong to which layer"
            )
        return substituted(graph, found)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """Each rule that holds, alone."""
        for rule in RULES:
            if matches(graph, (rule,)):
                yield cls(rule.name)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_substitution import substituted as in_force

        return in_force(run, tuple(rule.name for rule in self._chosen()))

    def _chosen(self) -> tuple[Rule, ...]:
        patterns = [pattern.strip() for pattern in self.rules.split("|")]
        return tuple(r for r in RULES if any(fnmatchcase(r.name, p) for p in patterns))
