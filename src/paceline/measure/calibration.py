"""`Calibration`: what was measured on a machine, the lines through it, prices that rest on it."""

from dataclasses import dataclass, replace

from paceline.cluster import Cluster, Device, Link
from paceline.cost.collectives import GLOO
from paceline.cost.compute import Efficiency
from paceline.cost.curve import Curve
from paceline.cost.errors import CostError
from paceline.cost.fit import FittedLine, fit_line
from paceline.cost.rates import Rates
from paceline.graph.kinds import Basis, DeviceKind, DType
from paceline.graph.variants import Ratio
from paceline.machine import Pulse
from paceline.measure.codec_times import (
    Adding,
    CodecTimes,
    OpTimes,
    adding_of,
    kernels,
    pays_below,
)
from paceline.measure.errors import MeasureError
from paceline.measure.handling import Handling
from paceline.measure.shared_cores import SharedCores
from paceline.measure.speeds import Speeds

SOURCE = "paceline measure"


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

    def line(self) -> FittedLine:
        return fit_line(self.sizes, self.times_ns)


@dataclass(frozen=True)
class Overlap:
    """By how much compute and communication slow each other when they run together."""

    compute: float
    communication: float


@dataclass(frozen=True)
class Calibration:
    """Measurements of one machine, with as many workers as took part in the all-reduces."""

    machine: str  # as `paceline.machine.this_machine` says it; files of before named no processor
    threads: int
    workers: int
    gemm: Sweep
    copy: Sweep
    elementwise: Sweep
    all_reduce: Sweep | None
    overlap: Overlap | None
    shared: SharedCores | None = None
    date: str = ""  # ISO 8601; unknown of a file of version 1
    codecs: tuple[CodecTimes, ...] = ()
    crowded_codecs: tuple[CodecTimes, ...] = ()  # while every core runs the same
    borders: tuple[OpTimes, ...] = ()  # what packing messages between stages takes
    adding: tuple[Adding, ...] = ()  # all-reduces of numbers that the library adds more slowly
    ratios: tuple[Ratio, ...] = ()  # of a job's operators in other variants
    handling: Handling | None = None  # what messages between workers in Python take of each
    pulse: Pulse | None = None  # of the machine while it was measured

    def doubt(self, here: str) -> str:
        """What to say where it may be of another machine than `here`; "" where there is nothing."""
        if here in ("", self.machine):
            return ""
        return (
            f"the calibration is of {self.machine!r} and the job's machine is {here!r}: its "
            "figures may not hold there; run `paceline measure` on it (earlier versions did not "
            "name the processor)"
        )

    def device(self) -> Device:
        """The machine as a device whose figures are what it reaches, not what a datasheet says."""
        return Device(
            name=self.machine,
            kind=DeviceKind.CPU,
            memory_bytes_per_s=self.elementwise.line().bytes_per_s,
            units=self.threads,
            flops_per_s={DType.FLOAT32: self.gemm.line().bytes_per_s},
            source=SOURCE,
        )

    def applied(self, cluster: Cluster) -> Cluster:
        """The cluster with hosts that are processors taken for machines like this one."""
        mine = self.device()
        hosts = tuple(
            replace(host, device=mine) if host.device.kind is DeviceKind.CPU else host
            for host in cluster.hosts
        )
        return replace(cluster, hosts=hosts)

    def link(self) -> Link:
        """What two workers have between them: an all-reduce of S bytes moves 2 (n - 1) / n S."""
        line = self._all_reduce().line()
        rate = line.bytes_per_s * 2 * (self.workers - 1) / self.workers
        return Link.both_ways(rate, source=SOURCE)

    def rates(self) -> Rates:
        """Prices fitted to this machine. Half of the all-reduce's latency is the call's, the rest
        is spread over its messages."""
        ramp = max(0.0, self.gemm.line().latency_ns)
        launch = max(0.0, self.elementwise.line().latency_ns)
        known = Efficiency(1.0, 1.0, ramp, launch, Basis.FITTED, SOURCE)
        tables = self.kernels()
        if self.all_reduce is None:
            return Rates({self.machine: known}, kernels=tables)
        latency = max(0.0, self.all_reduce.line().latency_ns)
        messages = 4 * (self.workers - 1)
        library = replace(
            GLOO,
            call_ns=latency / 2,
            message_ns=latency / 2 / messages,
            basis=Basis.FITTED,
            source=SOURCE,
        )
        return Rates({self.machine: known}, library, kernels=tables)

    def kernels(self) -> dict[str, Curve]:
        """Tables by which packing and unpacking are priced."""
        return self._with_borders(kernels(self.codecs, self.adding))

    def crowded_kernels(self) -> dict[str, Curve]:
        """The same where workers share this machine, as far as it was measured."""
        return self._with_borders(kernels(self.crowded_codecs or self.codecs, self.adding))

    def _with_borders(self, tables: dict[str, Curve]) -> dict[str, Curve]:
        return {**tables, **{op.name: op.curve() for op in self.borders}}

    def pays_below(self, workers: int = 2) -> dict[str, float]:
        """By codec: the bandwidth in bytes/s of each worker's link below which it saves more time
        on the wire than it spends, for the largest measured bucket and where no work hides it."""
        return {
            each.name: pays_below(each, workers, slower=adding_of(each, self.adding))
            for each in self.codecs
        }

    def speeds(self) -> Speeds:
        """The machine in four figures. The all-reduce's latency is spread over the messages of a
        ring."""
        reduce, ring = self._all_reduce().line(), 2 * (self.workers - 1)
        return Speeds(
            memory_bytes_per_s=self.copy.line().bytes_per_s,
            wire_bytes_per_s=reduce.bytes_per_s * ring / self.workers,
            flops_per_s=self.gemm.line().bytes_per_s,
            message_s=max(0.0, reduce.latency_ns) / 1e9 / ring,
        )

    def _all_reduce(self) -> Sweep:
        if self.all_reduce is None:
            raise MeasureError("this calibration has no all-reduce; run `paceline measure` with "
                               "--workers 2 or more")  # fmt: skip
        return self.all_reduce
