"""Data-parallel workers put together to groups that share pairs of linear layers.

Of a pair each of `degree` ranks side by side holds some of the first layer's outputs and the same
inputs of the second (Megatron-LM). Its rows are gathered at the entry, and what the second gives is
summed back to those whose rows they are; in the backward pass the other way round. So a rank does
as much work as before, on all rows and a part of the columns. Gradients of parts are reduced among
the ranks that hold the same part.

`pairs` says which layers are pairs; `parts` makes a job whose ranks hold parts of them; `calls` are
its new collectives, which `exchange` puts in, with what `row_ops` and `part_ops` make around them.
"""

from paceline.graph.shared_pairs.calls import HEADER_BYTES
from paceline.graph.shared_pairs.exchange import with_pair_exchange
from paceline.graph.shared_pairs.new_ops import Talk, talk_of
from paceline.graph.shared_pairs.pairs import (
    Joined,
    LinearPair,
    PairRows,
    SharedPair,
    cut_parameters,
    pairs_of,
)
from paceline.graph.shared_pairs.parts import with_parts

__all__ = [
    "HEADER_BYTES",
    "Joined",
    "LinearPair",
    "PairRows",
    "SharedPair",
    "Talk",
    "cut_parameters",
    "pairs_of",
    "talk_of",
    "with_pair_exchange",
    "with_parts",
]
