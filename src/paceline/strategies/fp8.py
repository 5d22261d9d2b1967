"""Products of linear layers in 8 bits, forward and backward; weights and all else stay in 16.
Micikevicius et al., "FP8 Formats for Deep Learning" (2022), as torchao and Transformer Engine do.

A product takes its time by what forecasts say of it in 8 bits and in 16, on the device that the job
runs on then: in 8 bits as one in 16 of so much less depth as the device multiplies faster. Each
operand is scaled by its largest value, so it is read twice and written once in 8 bits before each
product; `fused` casts are part of what stands before them (torch.compile). Dimensions must be
multiples of 16, as torch asks. Wrong where the host, which launches those casts too, decides, where
casts are shared by two products, and where a library is worse in 8 bits than in 16.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from paceline.cluster import Device
from paceline.cluster.files import device as preset
from paceline.cluster.presets import table as presets
from paceline.cost.forecast import Constants, Sheet, forecast, sheet_of
from paceline.cost.ported import recorded_device
from paceline.graph import UNPRICED, Basis, DType, Graph, LaneKind, Phase
from paceline.graph.condense import Grain
from paceline.graph.graph import Bool
from paceline.graph.scaled import scaled
from paceline.graph.work import Family, Matrix, Rows, Work, copied, matrix, reduction
from paceline.strategies.strategy import Effect, Strategy, StrategyError

Times = NDArray[np.float64]

_SIXTEEN: Final = (DType.BFLOAT16, DType.FLOAT16)
_MULTIPLE: Final = 16
_PASSES: Final = (Phase.FORWARD, Phase.BACKWARD)


@dataclass(frozen=True)
class Fp8(Strategy):
    grain: ClassVar[Grain] = Grain.OP  # merged kernels do not say what they worked on
    effect: ClassVar[Effect] = Effect.LOSSY
    conflicts: ClassVar[frozenset[str]] = frozenset({"fp8", "autocast"})
    follows: ClassVar[frozenset[str]] = frozenset({"device"})
    how: ClassVar[str] = (
        "Convert the model before it trains: torchao.float8.convert_to_float8_training(model)."
    )

    fused: bool = False  # casts cost nothing of their own
    recorded: str = ""  # the device recorded on; as the recording says where empty
    constants: Constants | None = field(default=None, repr=False, compare=False)

    def priced_by(self, constants: Constants | None) -> "Fp8":
        return self if constants is None else replace(self, constants=constants)

    def transform(self, graph: Graph) -> Graph:
        rows = _products(graph)
        sheet = sheet_of(self._device(graph))
        by_work = np.append(self._factors(graph, sheet), 1.0)
        made = scaled(graph, rows, by_work[graph.ops.work])
        basis = np.where(rows & (made.ops.basis == Basis.RECORDED), Basis.SCALED, made.ops.basis)
        return replace(made, ops=replace(made.ops, basis=basis.astype(np.uint8)))

    def rests_on(self, graph: Graph) -> Iterator[str]:
        """`graph` has the change."""
        rows, device = _products(graph), self._device(graph)
        factors = np.append(self._factors(graph, sheet_of(device)), 1.0)[graph.ops.work[rows]]
        took = graph.ops.dur_ns[rows].sum() / max(1.0, (graph.ops.dur_ns[rows] / factors).sum())
        slower = int((factors > 1).sum())
        yield (
            f"fp8 on {device.name}: {len(factors)} products take {took:.2f} times as long, by "
            f"forecasts of 8 and 16 bits{'' if self.fused else ' and casts of both operands'}"
            + (f"; {slower} of them take longer, so leave those layers out" if slower else "")
        )

    def _device(self, graph: Graph) -> Device:
        carried = graph.facts.carried_to
        found = preset(carried) if carried else recorded_device(graph, self.recorded)
        if DType.FLOAT8 not in found.flops_per_s:
            known = [name for name in presets("devices") if _has_eight_bits(name)]
            raise StrategyError(
                f"{found.name} does not multiply in 8 bits; devices that do: {', '.join(known)}. "
                "Carry the job to one with --device NAME"
            )
        return found

    def _factors(self, graph: Graph, sheet: Sheet) -> Times:
        """By work: how many times as long it takes in 8 bits."""
        found = np.ones(len(graph.works))
        mine = [at for at, each in enumerate(graph.works) if _fits(each.work)]
        works = [graph.works[at].work for at in mine]
        if not works:
            return found
        wide = forecast(works, sheet, self.constants).dur_ns
        narrow = forecast([_narrowed(work, sheet) for work in works], sheet, self.constants).dur_ns
        casts = 0 if self.fused else _casts_ns(works, sheet, self.constants)
        found[mine] = (narrow + casts) / wide
        return found


def _products(graph: Graph) -> Bool:
    """Of linear layers, on a device, in 16 bits."""
    ops = graph.ops
    streams = graph.lanes.kind[ops.lane] == LaneKind.STREAM
    fits = np.array([*(_fits(each.work) for each in graph.works), False], np.bool_)
    found: Bool = streams & fits[ops.work] & np.isin(ops.phase, _PASSES)
    if not found.any():
        raise StrategyError(
            "no product of matrices in 16 bits with dimensions in multiples of 16 is seen on a "
            "GPU's streams in this job, and fp8 speeds up nothing else. Record it with shapes "
            "(record_shapes=True), in bfloat16"
        )
    if (ops.dur_ns[found] == UNPRICED).any():
        raise StrategyError(
            "the job was imagined for no device, so nothing tells how fast it multiplies in 8 "
            "bits; imagine it with --device NAME"
        )
    return found


def _fits(work: Work) -> bool:
    if work.family is not Family.MATRIX or work.dtype not in _SIXTEEN:
        return False
    dims = work.dims
    assert isinstance(dims, Matrix)
    sides = (dims.m, dims.n, dims.k)
    return dims.b == 1 and all(side and side % _MULTIPLE == 0 for side in sides)


def _narrowed(work: Work, sheet: Sheet) -> Work:
    """As many instructions, tiles and bytes as one in 8 bits has."""
    dims = work.dims
    assert isinstance(dims, Matrix)
    less = sheet.peak(DType.BFLOAT16) / sheet.peak(DType.FLOAT8)
    return matrix(replace(dims, k=max(1, round(dims.k * less))), work.dtype)


def _casts_ns(works: list[Work], sheet: Sheet, constants: Constants | None) -> Times:
    """For each product: its operands' largest values, and their copies in 8 bits."""
    passes = [one for work in works for one in _casts(work)]
    found = forecast(passes, sheet, constants).dur_ns.astype(np.float64)
    return np.asarray(found.reshape(len(works), -1).sum(1), np.float64)


def _casts(work: Work) -> Iterator[Work]:
    dims, dtype = work.dims, work.dtype
    assert isinstance(dims, Matrix)
    for count in (dims.m * dims.k, dims.k * dims.n):
        yield reduction(Rows(1, count), dtype)
        yield copied(count, dtype, DType.FLOAT8)


def _has_eight_bits(name: str) -> bool:
    return DType.FLOAT8 in preset(name).flops_per_s
