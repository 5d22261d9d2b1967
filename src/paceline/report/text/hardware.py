"""A hardware search: the design found, the plan of each model, and known designs beside them."""

from collections.abc import Iterator, Mapping
from typing import Any

from paceline.report.text.facts import facts_table


def hardware_tables(data: Mapping[str, Any]) -> Iterator[Any]:
    if data["models"]:
        yield facts_table(_design(data))
        yield ""
        yield _plans(data["models"])
    for row in data["models"]:
        if row["baselines"]:
            yield ""
            yield _known(row)
    yield ""
    yield (
        f"{data['considered']:,} designs considered, {data['planned']:,} planned, "
        f"{data['refined']} scheduled exactly"
    )
    yield f"{data['buckets']} buckets in {data['seconds']:.0f} s; ended by: {data['stopped']}"


def _design(data: Mapping[str, Any]) -> dict[str, str]:
    return {
        "design": data["described"],
        "area": f"{data['area_mm2']:.1f} mm2",
        "peak": f"{data['peak_flops'] / 1e12:,.1f} TFLOP/s",
    }


def _plans(rows: list[Mapping[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("model")
    for name in ("samples/s", "micro-batch", "copies", "stages", "devices of a copy"):
        table.add_column(name, justify="right")
    for row in rows:
        devices = sum(stage["width"] for stage in row["stages"])
        counts = (row["micro_batch"], row["replicas"], len(row["stages"]), devices)
        table.add_row(row["model"], f"{row['samples_per_s']:,.0f}", *map(str, counts))
    return table


def _known(row: Mapping[str, Any]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column(f"{row['model']} on known designs")
    table.add_column("samples/s", justify="right")
    table.add_column("found is", justify="right")
    for name, rate in sorted(row["baselines"].items(), key=lambda item: -item[1]):
        table.add_row(name, f"{rate:,.0f}", f"{row['samples_per_s'] / rate:.2f} times")
    return table
