"""`CodecTimes`: what packing and unpacking take on this machine, and when a codec therefore pays.

A codec saves bytes on the wire and spends time: below some bandwidth it pays.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.cost.collectives.volume import sent_share
from paceline.cost.curve import Curve
from paceline.graph.kinds import Collective, DType
from paceline.measure.errors import MeasureError

Sizes = NDArray[np.float64]


@dataclass(frozen=True)
class OpTimes:
    """An op of a graph: times over the bytes that it touches, as the graph counts them."""

    name: str  # such as `pack topk`
    touched_bytes: tuple[int, ...]
    times_ns: tuple[float, ...]

    def curve(self) -> Curve:
        return Curve.through(self.touched_bytes, self.times_ns)


@dataclass(frozen=True)
class CodecTimes:
    """One codec with its default settings. Rows are by number of gradients."""

    name: str
    dtype: DType  # of what travels
    gathers: bool
    counts: tuple[int, ...]
    payload_bytes: tuple[int, ...]  # that a rank hands over, in all rounds
    ops: tuple[OpTimes, ...]
    members: int = 2  # of whom payloads were unpacked
    dense: bool = False  # each payload is added to all gradients

    def spent_ns(self, workers: int, row: int = -1) -> float:
        """Packing and unpacking among so many workers."""
        if not self.gathers or workers == self.members:
            return sum(op.times_ns[row] for op in self.ops)
        *before, unpack = self.ops
        each = self.payload_bytes[row] + (8 * self.counts[row] if self.dense else 0)
        more = (workers - self.members) * each
        touched = np.array([float(unpack.touched_bytes[row] + more)])
        return sum(op.times_ns[row] for op in before) + float(unpack.curve().at(touched)[0])

    def sent_bytes(self, workers: int, row: int = -1) -> float:
        """What a mean member of a ring sends."""
        collective = Collective.ALL_GATHER if self.gathers else Collective.ALL_REDUCE
        size = self.payload_bytes[row] * (workers if self.gathers else 1)
        return size * sent_share(collective, workers)


def pays_below(
    times: CodecTimes, workers: int = 2, row: int = -1, slower: "Adding | None" = None
) -> float:
    """The bandwidth in bytes/s of each worker's link below which the codec saves more time on the
    wire than it spends, where no work hides either; 0 where it sends more. `slower`: what the
    library takes longer to add numbers of its type."""
    if workers < 2:
        raise MeasureError(f"{workers} worker exchanges no gradients; ask for 2 or more")
    plain = 4 * times.counts[row] * sent_share(Collective.ALL_REDUCE, workers)
    saved = plain - times.sent_bytes(workers, row)
    spent = times.spent_ns(workers, row)
    if slower is not None and not times.gathers:
        spent += slower.more_ns(times.payload_bytes[row])
    return max(0.0, saved / spent * 1e9)


@dataclass(frozen=True)
class Adding:
    """All-reduces of numbers of a type, and of as many bytes of float32: what the library takes
    longer to add them."""

    dtype: DType
    sizes: tuple[float, ...]
    times_ns: tuple[float, ...]
    float32_ns: tuple[float, ...]

    def more_ns(self, size_bytes: float) -> float:
        """For a payload of so many bytes."""
        return float(self._more(np.array([float(size_bytes)]))[0])

    def on_top(self, times: OpTimes, payload_bytes: Sequence[int]) -> OpTimes:
        """An op's times with what the library takes longer."""
        more = self._more(np.array(payload_bytes, np.float64))
        longer = tuple(time + float(extra) for time, extra in zip(times.times_ns, more))
        return OpTimes(times.name, times.touched_bytes, longer)

    def _more(self, sizes: Sizes) -> Sizes:
        own = Curve.through(self.sizes, self.times_ns)
        usual = Curve.through(self.sizes, self.float32_ns)
        return np.maximum(0.0, own.at(sizes) - usual.at(sizes))


def adding_of(codec: CodecTimes, adding: Sequence[Adding]) -> Adding | None:
    """What the library takes longer to add this codec's payloads, where it was measured."""
    own = (each for each in adding if each.dtype is codec.dtype and not codec.gathers)
    return next(own, None)


def kernels(codecs: Sequence[CodecTimes], adding: Sequence[Adding]) -> dict[str, Curve]:
    """Tables by which a graph's packing ops are priced. What the library takes longer to add a
    payload stands with the unpacking, behind the collective."""
    found = {}
    for codec in codecs:
        *before, unpack = codec.ops
        slower = adding_of(codec, adding)
        if slower is not None:
            unpack = slower.on_top(unpack, codec.payload_bytes)
        found.update({op.name: op.curve() for op in (*before, unpack)})
    return found
