"""Whether the network is a job's bottleneck: scaling factors over the links' rate."""

from rich.table import Table

from paceline.predict.bottleneck import Bottleneck
from paceline.report.text.quantities import duration


def bottleneck_lines(found: Bottleneck) -> tuple[str, ...]:
    now = "" if found.recorded is None else f" As recorded, the factor is {found.recorded:.3f}."
    return (
        f"A step takes {duration(found.alone_ns)} without communication, on {found.workers} "
        f"workers.{now}",
        f"From {_rate(found.enough_bits_per_s)} on the network matters less than "
        f"{found.margin:.0%}: no links bring more than {found.best:.3f}.",
    )


def bottleneck_table(found: Bottleneck) -> Table:
    table = Table("links", "scaling factor", "compression that makes up for them", box=None)
    for row in found.rates:
        compression = f"{row.compression:.3g} x" if row.compression > 1 else "none needed"
        table.add_row(_rate(row.bits_per_s), f"{row.scaling_factor:.3f}", compression)
    return table


def _rate(bits_per_s: int) -> str:
    return f"{bits_per_s / 1e9:.3g} Gbit/s"
