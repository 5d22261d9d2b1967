"""Operators in place of others that give the same numbers, by a list of rules. Jia et al.,
"Optimizing DNN Computation with Relaxed Graph Substitutions" (MetaFlow, 2019), as in Daydream.

`pool_before_relu`: a maximum is taken before what is below zero is cut, so a quarter of the numbers
is cut. `relu_in_place`: a ReLU overwrites what a linear layer, a convolution, a batch norm or a
pooling gave it, so that it writes to memory that is at hand. Both hold for neighbours in an
`nn.Sequential`. `merge_products`: linear layers that read one input, as queries, keys and values
do, are one product of their weights side by side. Wrong where pooling windows are not 2 x 2, where
memory's traffic does not decide a ReLU's time, where merging was not measured (`paceline measure
--for RUN`), for then it leaves products as long as they were, and where neighbouring layers of a
module read inputs of one size that are not the same.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

from paceline.cost.variants import in_variant, typical_words
from paceline.graph import Graph
from paceline.graph.condense import Grain
from paceline.graph.substitution import Rule, matches, substituted
from paceline.graph.variants import Variant
from paceline.runtime.run import Run
from paceline.strategies.merging import merged_layers, products_of
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
MERGE = "merge_products"
NAMES = (*(rule.name for rule in RULES), MERGE)


@dataclass(frozen=True)
class Substitute(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    conflicts: ClassVar[frozenset[str]] = frozenset({"substitute"})
    applies: ClassVar[bool] = True

    rules: str = "*"  # names, with * and ?, apart by |

    def __post_init__(self) -> None:
        if not self._chosen():
            raise StrategyError(f"no rule is called {self.rules!r}; there are {', '.join(NAMES)}")

    def transform(self, graph: Graph) -> Graph:
        found, merged = matches(graph, self._pairs()), self._merged(graph)
        if not found and not merged:
            names = " and ".join(self._chosen())
            raise StrategyError(
                f"{names} holds nowhere in the recording: it has no such layers side by side, or "
                "does not tell which ops belong to which layer"
            )
        made = substituted(graph, found)
        return in_variant(made, products_of(made, merged), Variant.MERGED) if merged else made

    def rests_on(self, graph: Graph) -> Iterator[str]:
        merged = self._merged(graph)
        if merged:
            yield from typical_words(graph, products_of(graph, merged), Variant.MERGED)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """Each rule that holds, alone."""
        for rule in RULES:
            if matches(graph, (rule,)):
                yield cls(rule.name)
        if merged_layers(graph):
            yield cls(MERGE)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_substitution import substituted as in_force

        return in_force(run, self._chosen())

    def _chosen(self) -> tuple[str, ...]:
        patterns = [pattern.strip() for pattern in self.rules.split("|")]
        return tuple(name for name in NAMES if any(fnmatchcase(name, p) for p in patterns))

    def _pairs(self) -> tuple[Rule, ...]:
        return tuple(rule for rule in RULES if rule.name in self._chosen())

    def _merged(self, graph: Graph) -> list[tuple[str, ...]]:
        return merged_layers(graph) if MERGE in self._chosen() else []
