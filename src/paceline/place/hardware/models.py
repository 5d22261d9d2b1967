"""Transformers as chains of layers, each a small graph of operators, for any tensor width.

Width t splits heads and the inner dimension over t devices (Megatron's way): two all-reduces of
the activations forward and two backward in each layer.
"""

from dataclasses import dataclass
from functools import cache
from typing import Protocol

from paceline.place.hardware.estimate import BYTES, Operator, Unit


class Chained(Protocol):
    """A model as a chain of layers; what bounds it is remembered."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str: ...

    def widths(self, most: int = 8) -> tuple[int, ...]:
        """Tensor widths that divide it."""
        ...

    def chain(self, batch: int, width: int) -> "tuple[LayerDemand, ...]":
        """Its layers, with its ends, for micro-batches of a size."""
        ...


@dataclass(frozen=True)
class UniformModel:
    """A stack of equal transformer layers between an embedding and a head."""

    name: str
    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int

    def widths(self, most: int = 8) -> tuple[int, ...]:
        """Powers of two that divide the heads."""
        return tuple(w for w in (1, 2, 4, 8, 16) if w <= most and self.heads % w == 0)

    def chain(self, batch: int, width: int) -> "tuple[LayerDemand, ...]":
        """Embedding, the layers, head."""
        middle = transformer_layer(self, batch, width)
        ends = _embedding(self, batch, width), _head(self, batch, width)
        return (ends[0], *[middle] * self.layers, ends[1])


BERT_LARGE = UniformModel("BERT-large", 24, 1024, 16, 512, 30522)
GPT2_54 = UniformModel("GPT-2 of 54 layers", 54, 1920, 20, 1024, 50257)

MODELS = {"bert-large": BERT_LARGE, "gpt2-54": GPT2_54}
"""By their names on the command line."""


@dataclass(frozen=True, eq=False)
class LayerDemand:
    """What one layer asks of a device that holds 1 / width of it, for one micro-batch. Equal
    layers of a chain are one object."""

    forward: tuple[Operator, ...]
    backward: tuple[Operator, ...]
    parameter_bytes: float
    activation_bytes: float  # kept for the backward part
    input_bytes: float  # what enters from the layer before
    all_reduce_bytes: float  # forward; backward as much again


def input_bytes(rows: int, hidden: int) -> float:
    """Of what one layer passes on to the next."""
    return float(rows * hidden * BYTES)


@cache
def transformer_layer(model: UniformModel, batch: int, width: int) -> LayerDemand:
    rows, hidden = batch * model.sequence, model.hidden
    inner, heads = hidden // width, batch * model.heads // width
    per_head, s = hidden // model.heads, model.sequence
    steps = [
        _vector("norm 1", rows * hidden, 6),
        _product("query", rows, hidden, inner, after=(0,)),
        _product("key", rows, hidden, inner, after=(0,)),
        _product("value", rows, hidden, inner, after=(0,)),
        _product("scores", s, per_head, s, g=heads, after=(1, 2)),
        _vector("softmax", heads * s * s, 5, after=(4,)),
        _product("context", s, s, per_head, g=heads, after=(3, 5)),
        _product("projection", rows, inner, hidden, after=(6,)),
        _vector("add 1", rows * hidden, 1, after=(7,)),
        _vector("norm 2", rows * hidden, 6, after=(8,)),
        _product("up", rows, hidden, 4 * inner, after=(9,)),
        _vector("gelu", 4 * rows * inner, 8, after=(10,)),
        _product("down", rows, 4 * inner, hidden, after=(11,)),
        _vector("add 2", rows * hidden, 1, after=(8, 12)),
    ]
    kept = rows * hidden * 4 + rows * inner * 12 + heads * s * s * 2
    return LayerDemand(
        forward=tuple(steps),
        backward=backward(tuple(steps)),
        parameter_bytes=12.0 * hidden * hidden / width * BYTES,
        activation_bytes=float(kept * BYTES),
        input_bytes=input_bytes(rows, hidden),
        all_reduce_bytes=2.0 * rows * hidden * BYTES,
    )


def backward(forward: tuple[Operator, ...]) -> tuple[Operator, ...]:
    """The reversed graph: a product becomes two independent ones (towards its input and towards
    its weights), a vector operator one of the same size."""
    readers: dict[int, list[int]] = {i: [] for i in range(len(forward))}
    for i, op in enumerate(forward):
        for before in op.after:
            readers[before].append(i)
    found: list[Operator] = []
    towards_input: dict[int, int] = {}
    for i in reversed(range(len(forward))):
        op = forward[i]
        after = tuple(sorted({towards_input[r] for r in readers[i]}))
        towards_input[i] = len(found)
        if op.unit is Unit.VECTOR:
            found.append(Operator(f"{op.name}'", op.unit, op.m, op.k, after=after))
            continue
        found.append(Operator(f"{op.name}' input", op.unit, op.m, op.n, op.k, op.g, after))
        found.append(Operator(f"{op.name}' weight", op.unit, op.k, op.m, op.n, op.g, after))
    return tuple(found)


@cache
def _embedding(model: UniformModel, batch: int, width: int) -> LayerDemand:
    rows = batch * model.sequence
    forward = (_vector("embed", rows * model.hidden, 1),)
    return LayerDemand(
        forward,
        backward(forward),
        model.vocabulary * model.hidden / width * BYTES,
        input_bytes(rows, model.hidden),
        float(rows * 4),
        float(rows * model.hidden * BYTES) if width > 1 else 0.0,
    )


@cache
def _head(model: UniformModel, batch: int, width: int) -> LayerDemand:
    rows, words = batch * model.sequence, model.vocabulary // width
    forward = (
        _product("logits", rows, model.hidden, words),
        _vector("loss", rows * words, 5, after=(0,)),
    )
    return LayerDemand(
        forward,
        backward(forward),
        model.vocabulary * model.hidden / width * BYTES,
        float(rows * words * BYTES),
        input_bytes(rows, model.hidden),
        float(rows * model.hidden * BYTES) if width > 1 else 0.0,
    )


def _product(
    name: str, m: int, k: int, n: int, g: int = 1, after: tuple[int, ...] = ()
) -> Operator:
    return Operator(name, Unit.TENSOR, m, k, n, g, after)


def _vector(name: str, elements: int, steps: int, after: tuple[int, ...] = ()) -> Operator:
    return Operator(name, Unit.VECTOR, elements, steps, after=after)
