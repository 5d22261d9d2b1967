"""Networks with their latency and utilisation."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from paceline.cost.network import LatencyModel, utilisation


@dataclass(frozen=True)
class LatencyRow:
    """One network; `measured_ns` is 0 where it was not measured."""

    name: str
    flops: int
    predicted_ns: float
    measured_ns: int
    peak_flops_per_s: float

    @property
    def predicted_share(self) -> float:
        return utilisation(self.flops, self.predicted_ns, self.peak_flops_per_s)

    @property
    def measured_share(self) -> float:
        return utilisation(self.flops, self.measured_ns, self.peak_flops_per_s)

    def data(self) -> dict[str, Any]:
        shares: dict[str, float | None] = {"utilisation": self.predicted_share}
        shares["measured_utilisation"] = self.measured_share if self.measured_ns else None
        return {**asdict(self), **shares}


def latency_table(rows: Sequence[LatencyRow]) -> Table:
    """The best used first."""
    whole = any(row.measured_ns for row in rows)
    names = ("network", "GFLOP", "predicted", "utilisation")
    table = Table(*names, *(("measured", "utilisation", "error") if whole else ()), box=None)
    for row in sorted(rows, key=lambda row: -row.predicted_share):
        cells = [row.name, f"{row.flops / 1e9:,.2f}", f"{row.predicted_ns / 1e6:,.1f} ms",
                 f"{row.predicted_share:.1%}"]  # fmt: skip
        if row.measured_ns:
            error = row.predicted_ns / row.measured_ns - 1
            cells += [f"{row.measured_ns / 1e6:,.1f} ms", f"{row.measured_share:.1%}",
                      f"{error:+.1%}"]  # fmt: skip
        table.add_row(*cells)
    return table


def learned_line(model: LatencyModel) -> str:
    return (
        f"learned from {len(model.networks)} networks of this machine, each off by "
        f"{model.error:.1%} in the mean when left out; peak {model.peak_flops_per_s / 1e9:,.1f} "
        "GFLOP/s"
    )
