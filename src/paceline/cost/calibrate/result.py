"""`Calibration`: what was measured on a machine, the lines through it, prices that rest on it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from paceline.cluster import Device, Link
from paceline.cost.collectives import GLOO
from paceline.cost.compute import Efficiency
from paceline.cost.errors import CostError
from paceline.cost.fit import Line, fit_line
from paceline.cost.rates import Rates
from paceline.graph.kinds import Basis, DeviceKind, DType

VERSION = 1


@dataclass(frozen=True)
class Sweep:
    """Times over sizes: bytes, or floating-point operations for GEMM."""

    sizes: tuple[float, ...]
    times_ns: tuple[float, ...]

    @property
    def grows(self) -> bool:
        """Whether larger sizes take longer, so that a line of latency and bandwidth fits."""
        try:
            return self.line().bytes_per_s > 0
        except CostError:
            return False

    def line(self) -> Line:
        return fit_line(self.sizes, self.times_ns)


@dataclass(frozen=True)
class Overlap:
    """By how much compute and communication slow each other when they run together."""

    compute: float
    communication: float


@dataclass(frozen=True)
class Calibration:
    """Measurements of one machine, with as many workers as took part in the all-reduces."""

    machine: str
    threads: int
    workers: int
    gemm: Sweep
    copy: Sweep
    elementwise: Sweep
    all_reduce: Sweep | None
    overlap: Overlap | None

    def device(self) -> Device:
        """The machine as a device whose figures are what it reaches, not what a datasheet says."""
        return Device(
            name=self.machine,
            kind=DeviceKind.CPU,
            memory_bytes_per_s=self.elementwise.line().bytes_per_s,
            units=self.threads,
            flops_per_s={DType.FLOAT32: self.gemm.line().bytes_per_s},
            source="paceline calibrate",
        )

    def link(self) -> Link:
        """What two workers have between them: an all-reduce of S bytes moves 2 (n - 1) / n S."""
        line = self._all_reduce().line()
        rate = line.bytes_per_s * 2 * (self.workers - 1) / self.workers
        return Link.both_ways(rate, source="paceline calibrate")

    def rates(self) -> Rates:
        """Prices fitted to this machine. Half of the all-reduce's latency is the call's, the rest
        is spread over its messages."""
        ramp = max(0.0, self.gemm.line().latency_ns)
        launch = max(0.0, self.elementwise.line().latency_ns)
        known = Efficiency(1.0, 1.0, ramp, launch, Basis.FITTED, "paceline calibrate")
        if self.all_reduce is None:
            return Rates({self.machine: known})
        latency = max(0.0, self.all_reduce.line().latency_ns)
        messages = 4 * (self.workers - 1)
        library = replace(
            GLOO, call_ns=latency / 2, message_ns=latency / 2 / messages, basis=Basis.FITTED
        )
        return Rates({self.machine: known}, library)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps({"version": VERSION, **asdict(self)}, indent=2) + "\n")

    def _all_reduce(self) -> Sweep:
        if self.all_reduce is None:
            raise CostError("this calibration has no all-reduce; run `paceline calibrate` with "
                            "--workers 2 or more")  # fmt: skip
        return self.all_reduce


def load(path: Path) -> Calibration:
    """A calibration kept by `save`."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CostError(f"cannot read calibration {path}: {error}") from error
    if not isinstance(document, dict) or document.pop("version", None) != VERSION:
        raise CostError(f"{path} is no calibration of version {VERSION}; run `paceline calibrate`")
    sweeps = {n: _sweep(document.pop(n)) for n in ("gemm", "copy", "elementwise", "all_reduce")}
    overlap = document.pop("overlap")
    return Calibration(
        **document, **sweeps, overlap=None if overlap is None else Overlap(**overlap)
    )


def summary(made: Calibration) -> dict[str, Any]:
    """The fitted lines with their 90 % intervals, for people and for JSON."""
    found: dict[str, Any] = {"machine": made.machine, "threads": made.threads}
    named: Sequence[tuple[str, Sweep | None, str]] = (
        ("gemm", made.gemm, "flops_per_s"),
        ("copy", made.copy, "bytes_per_s"),
        ("elementwise", made.elementwise, "bytes_per_s"),
        (f"all_reduce_{made.workers}_workers", made.all_reduce, "bytes_per_s"),
    )
    for name, sweep, unit in named:
        if sweep is not None:
            line = sweep.line()
            found[name] = {
                "latency_us": round(line.latency_ns / 1e3, 2),
                "latency_half_us": round(line.latency_half_ns / 1e3, 2),
                unit: round(line.bytes_per_s),
                f"{unit}_half": round(line.bytes_per_s_half),
                "mean_residual": round(line.residual, 4),
            }
    if made.overlap is not None:
        found["overlap"] = asdict(made.overlap)
    return found


def _sweep(document: Any) -> Any:
    if document is None:
        return None
    return Sweep(tuple(document["sizes"]), tuple(document["times_ns"]))
