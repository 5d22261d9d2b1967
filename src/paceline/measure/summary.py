"""A calibration in fitted lines with their 90 % intervals, for people and for JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from paceline.measure.calibration import Calibration, Sweep
from paceline.measure.shared_cores import SharedCores


def summary(made: Calibration) -> dict[str, Any]:
    """The fitted lines with their 90 % intervals, for people and for JSON."""
    found: dict[str, Any] = {
        "machine": made.machine,
        "date": made.date,
        "threads": made.threads,
    }
    if made.pulse is not None:
        found["pulse_us"] = {
            name: round(getattr(made.pulse, f"{name}_ns") / 1e3, 1)
            for name in ("arithmetic", "memory", "wakeup")
        }
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
    if made.codecs:
        found["codecs"] = _codecs(made)
    if made.shared is not None:
        found["shared_cores"] = _shared(made.shared)
    if made.handling is not None:
        found["handling"] = {name: round(ns, 3) for name, ns in asdict(made.handling).items()}
    if made.ratios:
        found["ratios"] = {
            f"{ratio.operator} {ratio.variant.value}": {
                "value": round(ratio.value, 3),
                "low": round(ratio.low, 3),
                "high": round(ratio.high, 3),
            }
            for ratio in made.ratios
        }
    return found


def _codecs(made: Calibration) -> dict[str, Any]:
    """What each takes of the largest measured bucket, and below which bandwidth it pays."""
    pays = made.pays_below(max(2, made.workers))
    return {
        each.name: {
            "gradients": each.counts[-1],
            **{f"{op.name.split()[0]}_ms": round(op.times_ns[-1] / 1e6, 2) for op in each.ops},
            "pays_below_bits_per_s": round(8 * pays[each.name]),
        }
        for each in made.codecs
    }


def _shared(found: SharedCores) -> dict[str, Any]:
    return {
        "cores": found.cores,
        "workers": found.workers,
        "all_reduce_s": round(found.all_reduce_s, 4),
        "links_alone_s": round(found.links_alone_s, 4),
        "limited_by_cores": found.limited_by_cores,
        **{
            name: {key: round(value, 3) for key, value in asdict(constant).items()}
            for name, constant in found.constants().items()
        },
    }
