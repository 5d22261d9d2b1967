"""A described decoder as the search for hardware sees it: what `paceline plan` prices, on a
template's cores.

The operators of a rank, the weights that it holds, what it keeps and what tensor ranks exchange are
those of the hybrid planner (`imagine.decoder`): one description of a job, priced by data sheets and
tables on devices that exist and by a template's closed forms on those that do not. Operators follow
one another, as in one stream. Fused attention is its products under the causal mask and a softmax
between them; what works element by element is bytes through a vector core.

Experts are not spread over devices here: each holds all of its stage's.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from paceline.errors import GraphError
from paceline.imagine.decoder import (
    AxisCollective,
    Content,
    Core,
    Decoder,
    DecoderJob,
    Operators,
    Passes,
    Product,
    Recipe,
    Sharding,
    kept_bytes,
)
from paceline.imagine.decoder import Operator as Described
from paceline.imagine.transformer import Degrees
from paceline.place.hardware.estimate import BYTES, Operator, Unit
from paceline.place.hardware.models import LayerDemand, input_bytes

_SOFTMAX_STEPS = 5
_BACK_PRODUCTS = 5
"""Of attention's backward pass: scores again, and gradients of values, scores, queries, keys."""


@dataclass(frozen=True)
class DecoderModel:
    """A decoder between its embedding and its head, as `UniformModel` is one of equal layers."""

    decoder: Decoder

    @property
    def name(self) -> str:
        return self.decoder.name

    def widths(self, most: int = 8) -> tuple[int, ...]:
        """Powers of two that divide what tensor ranks share."""
        return tuple(w for w in (1, 2, 4, 8, 16) if w <= most and _divides(self.decoder, w))

    def chain(self, batch: int, width: int) -> tuple[LayerDemand, ...]:
        return _chain(self.decoder, batch, width)


@lru_cache(maxsize=512)
def _chain(decoder: Decoder, batch: int, width: int) -> tuple[LayerDemand, ...]:
    job, kinds = _job(decoder, batch, width), (False, True)
    made = {routed: _layer(job, routed) for routed in kinds if _has(decoder, routed)}
    layers = (made[decoder.is_routed(layer)] for layer in range(decoder.layers))
    return (_embedding(job), *layers, _head(job))


def _job(decoder: Decoder, batch: int, width: int) -> DecoderJob:
    return DecoderJob(decoder, Degrees(tensor=width), Recipe(batch, batch, sharding=Sharding.NONE))


def _divides(decoder: Decoder, width: int) -> bool:
    try:
        _job(decoder, 1, width)
    except GraphError:
        return False
    return True


def _has(decoder: Decoder, routed: bool) -> bool:
    return any(decoder.is_routed(layer) is routed for layer in range(decoder.layers))


def _layer(job: DecoderJob, routed: bool) -> LayerDemand:
    made = Operators(job)
    there, back = made.forward(routed=routed), made.backward(routed=routed)
    held = job.shares(Content(int(not routed), int(routed), first=False, last=False))
    return LayerDemand(
        forward=_on_cores(there),
        backward=_on_cores(back),
        parameter_bytes=float(sum(share.params for share in held) * BYTES),
        activation_bytes=kept_bytes(job, routed=routed),
        input_bytes=input_bytes(job.tokens, job.model.hidden),
        all_reduce_bytes=(_exchanged(there) + _exchanged(back)) / 2,
    )


def _embedding(job: DecoderJob) -> LayerDemand:
    made = Operators(job)
    there = made.embedding()
    return LayerDemand(
        forward=_on_cores(there),
        backward=_on_cores(made.embedding_back()),
        parameter_bytes=float(job.vocab * job.model.hidden * BYTES),
        activation_bytes=input_bytes(job.rank_tokens, job.model.hidden),
        input_bytes=4.0 * job.tokens,
        all_reduce_bytes=_exchanged(there),
    )


def _head(job: DecoderJob) -> LayerDemand:
    made = Operators(job)
    there = made.head()
    return LayerDemand(
        forward=_on_cores(there),
        backward=_on_cores(made.head_back()),
        parameter_bytes=float(job.vocab * job.model.hidden * BYTES),
        activation_bytes=float(job.tokens * job.vocab * BYTES),
        input_bytes=input_bytes(job.tokens, job.model.hidden),
        all_reduce_bytes=_exchanged(there),
    )


def _exchanged(listed: Iterable[Described]) -> float:
    """Of an all-reduce that sends as much: a gather or a scatter is half of one."""
    return sum(one.size_bytes / 2 for one in listed if isinstance(one, AxisCollective))


def _on_cores(listed: Iterable[Described]) -> tuple[Operator, ...]:
    """One after another."""
    found: list[Operator] = []
    for one in listed:
        for name, unit, sizes in _parts(one):
            after = (len(found) - 1,) if found else ()
            found.append(Operator(name, unit, *sizes, after=after))
    return tuple(found)


def _parts(one: Described) -> Iterator[tuple[str, Unit, tuple[int, int, int, int]]]:
    """Names, units, and sizes: m, k, n and how many times."""
    if isinstance(one, Product):
        yield one.name, Unit.TENSOR, (one.m, one.k, one.n, one.b * one.count)
    elif isinstance(one, Core):
        yield from _attention(one)
    elif isinstance(one, Passes):
        elements = max(1, round(one.size_bytes / (2 * BYTES)))  # each read and written
        yield "element-wise", Unit.VECTOR, (elements, 1, 1, 1)


def _attention(one: Core) -> Iterator[tuple[str, Unit, tuple[int, int, int, int]]]:
    """The mask leaves each query half of the keys."""
    seen, times = max(1, round(one.s * one.share / 2)), one.b * one.heads
    scores = ("scores", Unit.TENSOR, (one.s, one.head_dim, seen, times))
    softmax = ("softmax", Unit.VECTOR, (times * one.s * seen, _SOFTMAX_STEPS, 1, 1))
    context = ("context", Unit.TENSOR, (one.s, seen, one.value_dim, times))
    if not one.back:
        yield from (scores, softmax, context)
        return
    yield from (scores, softmax)
    yield from (context for _ in range(_BACK_PRODUCTS - 1))
