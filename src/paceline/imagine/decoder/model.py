"""`Decoder`: a language model of today by its dimensions.

Everything else follows from its linear layers: parameters, arithmetic, what tensor ranks share.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache


class Cut(Enum):
    """How tensor ranks share a linear layer."""

    COLUMNS = "columns"  # each rank makes some of the outputs
    ROWS = "rows"  # each rank has some of the inputs; results are added up
    WHOLE = "whole"  # every rank has all of it


@dataclass(frozen=True)
class Linear:
    """A weight of `outputs` x `inputs`."""

    name: str
    outputs: int
    inputs: int
    cut: Cut = Cut.COLUMNS

    @property
    def params(self) -> int:
        return self.outputs * self.inputs

    def on_rank(self, tensor: int) -> "Linear":
        """The part of one of `tensor` ranks."""
        if self.cut is Cut.COLUMNS:
            return Linear(self.name, self.outputs // tensor, self.inputs, self.cut)
        if self.cut is Cut.ROWS:
            return Linear(self.name, self.outputs, self.inputs // tensor, self.cut)
        return self


@dataclass(frozen=True)
class GroupedQuery:
    """Attention whose `heads` share `kv_heads` keys and values; as many of both is plain attention.

    Where `window` is set, every layer but each `full_every`-th sees so many tokens alone.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int = 0
    full_every: int = 1

    @property
    def value_dim(self) -> int:
        return self.head_dim

    @property
    def kept(self) -> int:
        """Elements of queries, keys and values per token."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def sent(self) -> int:
        """Elements of keys and values per token."""
        return 2 * self.kv_heads * self.head_dim

    def linears(self, hidden: int) -> tuple[Linear, ...]:
        return (
            Linear("qkv", self.kept, hidden),
            Linear("projection", hidden, self.heads * self.head_dim, Cut.ROWS),
        )


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2): queries, and keys with values, through a narrow
    layer each; `nope` and `rope` are the parts of a head without and with rotary positions."""

    heads: int
    query_rank: int
    key_value_rank: int
    nope: int
    rope: int
    value: int

    @property
    def kv_heads(self) -> int:
        return self.heads

    @property
    def head_dim(self) -> int:
        return self.nope + self.rope

    @property
    def value_dim(self) -> int:
        return self.value

    @property
    def kept(self) -> int:
        return self.heads * (2 * self.head_dim + self.value)

    @property
    def sent(self) -> int:
        return self.heads * (self.head_dim + self.value)

    def linears(self, hidden: int) -> tuple[Linear, ...]:
        inner = self.query_rank or hidden
        narrow = (Linear("query down", inner, hidden, Cut.WHOLE),) if self.query_rank else ()
        return (
            *narrow,
            Linear("query up", self.heads * self.head_dim, inner),
            Linear("key-value down", self.key_value_rank + self.rope, hidden, Cut.WHOLE),
            Linear("key-value up", self.heads * (self.nope + self.value), self.key_value_rank),
            Linear("projection", hidden, self.heads * self.value, Cut.ROWS),
        )


@dataclass(frozen=True)
class Experts:
    """`count` feed-forward parts of width `ffn`, of which each token takes `top_k`; beside them
    `shared` is the width of what every token takes. The first `dense_layers` layers have none.

    `load` is the rows of the fullest rank over the mean: 1 where routing is balanced. `most_hosts`
    is on how many hosts a token's experts lie at most (group-limited routing); such tokens are sent
    once to each host. 0 is no limit, and one copy for each expert. Recorded `routing` stands in the
    place of `load`.
    """

    count: int
    top_k: int
    ffn: int
    shared: int = 0
    dense_layers: int = 0
    load: float = 1.0
    most_hosts: int = 0
    routing: "Routing | None" = None

    def load_on(self, ranks: int) -> float:
        """Rows of the fullest of so many ranks over the mean."""
        return self.load if self.routing is None else ranks * sum(self.routing.loads_on(ranks))


@dataclass(frozen=True, eq=False)
class Routing:
    """Recorded shares of the rows, by layer and expert; ranks hold experts in turn."""

    shares: tuple[tuple[float, ...], ...]

    @lru_cache(maxsize=256)  # noqa: B019 (few of them live, as long as their models)
    def loads_on(self, ranks: int) -> tuple[float, ...]:
        """Of each expert of the fullest of so many ranks, largest first: the mean of the layers,
        each of which has a fullest rank of its own."""
        fullest = [max(_cut(row, len(row) // ranks), key=sum) for row in self.shares]
        ordered = (sorted(row, reverse=True) for row in fullest)
        return tuple(sum(column) / len(fullest) for column in zip(*ordered))


def _cut(row: tuple[float, ...], each: int) -> list[tuple[float, ...]]:
    return [row[at : at + each] for at in range(0, len(row), each)]


@dataclass(frozen=True)
class Decoder:
    """`ffn` is the width of a dense layer's feed-forward part; gated ones have a third matrix.

    `further` layers behind the last predict tokens further on (DeepSeek-V3's multi-token
    prediction): each joins the next token's embedding to what the layer before made, and has the
    output again. They are trained, but not counted among the model's parameters.
    """

    name: str
    layers: int
    hidden: int
    vocab: int
    attention: GroupedQuery | Latent
    ffn: int
    gated: bool = True
    experts: Experts | None = None
    tied: bool = False  # the embedding is the output's weight too
    positions: int = 0  # learned ones
    further: int = 0
    sequence: int = 4096  # what it is trained with where nothing else is said
    source: str = ""

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Of attention."""
        return self.attention.linears(self.hidden)

    def feed_forward(self, width: int) -> tuple[Linear, ...]:
        inner = 2 * width if self.gated else width
        return (
            Linear("ffn in", inner, self.hidden),
            Linear("ffn out", self.hidden, width, Cut.ROWS),
        )

    def is_routed(self, layer: int) -> bool:
        return self.experts is not None and layer >= self.experts.dense_layers

    def routed_among(self, layers: Sequence[int]) -> int:
        """How many of consecutive layers have experts."""
        if self.experts is None:
            return 0
        return len(layers) - bisect_left(layers, self.experts.dense_layers)

    @property
    def params(self) -> int:
        dense, routed = (self.layer_params(routed) for routed in (False, True))
        count = self.routed_among(range(self.layers))
        return (self.layers - count) * dense + count * routed + self.ends_params

    @property
    def active_params(self) -> int:
        """Those that one token meets."""
        if self.experts is None:
            return self.params
        idle = self.experts.count - self.experts.top_k
        count = self.routed_among(range(self.layers))
        return self.params - count * idle * _sum(self.feed_forward(self.experts.ffn))

    def layer_params(self, routed: bool) -> int:
        norms = 2 * self.hidden
        attention = _sum(self.linears)
        if not routed or self.experts is None:
            return attention + norms + _sum(self.feed_forward(self.ffn))
        each = _sum(self.feed_forward(self.experts.ffn))
        shared = _sum(self.feed_forward(self.experts.shared))
        router = self.experts.count * self.hidden
        return attention + norms + router + self.experts.count * each + shared

    @property
    def joined(self) -> Linear:
        """What joins an embedding to a layer's result, before a layer that predicts further on."""
        return Linear("joined", self.hidden, 2 * self.hidden)

    @property
    def further_params(self) -> int:
        """Of the layers that predict further on; embedding and output are the model's."""
        each = self.layer_params(self.experts is not None) + self.joined.params + 3 * self.hidden
        return self.further * each

    @property
    def ends_params(self) -> int:
        """Embedding, positions, last norm and output."""
        words = self.vocab * self.hidden
        return words * (1 if self.tied else 2) + (self.positions + 1) * self.hidden

    def flops_per_token(self, sequence: int) -> float:
        """Model arithmetic of forward and backward, as MFU counts it (causal attention by half)."""
        words = self.vocab * self.hidden * (1 if self.tied else 2)
        matrices = self.active_params - words + self.vocab * self.hidden
        matrices += self._further_active
        a = self.attention
        pairs = (self.layers + self.further) * a.heads * (a.head_dim + a.value_dim) * sequence / 2
        return 6.0 * (matrices + pairs)

    @property
    def _further_active(self) -> int:
        """What one token meets of layers that predict further on, and of their outputs."""
        found = self.further_params + self.further * self.vocab * self.hidden
        if self.experts is None:
            return found
        idle = self.experts.count - self.experts.top_k
        return found - self.further * idle * _sum(self.feed_forward(self.experts.ffn))


def _sum(linears: tuple[Linear, ...]) -> int:
    return sum(one.params for one in linears)
