"""The dimensions of an operator: one frozen class per kind, all of whole numbers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Matrix:
    """b products of m x k with k x n."""

    b: int
    m: int
    n: int
    k: int


@dataclass(frozen=True)
class Grouped:
    """Rows of m x k, each multiplied by one of `groups` matrices of k x n: experts."""

    groups: int
    m: int  # rows of all groups together
    n: int
    k: int


@dataclass(frozen=True)
class Convolution:
    """A batch of images, signals or volumes. Backward passes have the forward's dimensions."""

    b: int
    channels_in: int
    channels_out: int
    size_in: int  # places of one input channel: height x width
    size_out: int
    kernel: int  # places of one filter: 9 for 3 x 3
    stride: int  # product over the dimensions: 4 for 2 x 2
    groups: int = 1


@dataclass(frozen=True)
class Attention:
    """Scaled dot products of `b` sequences; `kv_heads` below `heads` share keys and values."""

    b: int
    heads: int
    kv_heads: int
    s: int  # of the queries
    s_kv: int
    d: int
    d_v: int
    causal: bool = False


@dataclass(frozen=True)
class Rows:
    """`rows` rows of `columns` elements, each row worked out together."""

    rows: int
    columns: int


@dataclass(frozen=True)
class Elements:
    """`count` results, each from one element of each of `inputs` tensors."""

    count: int
    inputs: int = 1


Dims = Matrix | Grouped | Convolution | Attention | Rows | Elements
