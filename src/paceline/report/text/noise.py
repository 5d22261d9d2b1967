"""How steady this machine is, and what can be measured on it."""

from typing import TYPE_CHECKING

from paceline.machine import Cores, Quota, Steadiness
from paceline.report.text.quantities import duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def show_noise(found: Steadiness, cores: Cores, quota: Quota | None, console: "Console") -> None:
    """What was seen, then what it allows."""
    console.print(_facts(found, cores, quota))
    console.print()
    console.print(_trust(found))
    console.print(
        f"To tell a gain of 3 % two plans need {found.steps_for_gain} steps of 100 ms each, "
        "taken in turn.",
        soft_wrap=True,
    )


def _facts(found: Steadiness, cores: Cores, quota: Quota | None) -> "Table":
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    for name, share in (("1 ms", found.at_1ms), ("100 ms", found.at_100ms), ("10 s", found.at_10s)):
        known = "watch for 20 s or longer" if share is None else _share(share)
        table.add_row(f"varies at {name} by", known)
    table.add_row("waiting for a core", _share(found.waiting))
    table.add_row("stolen by the host", _share(found.stolen))
    table.add_row("throttled by a quota", _share(found.throttled))
    table.add_row("cores", _cores(cores, quota))
    if found.pulse is not None:
        table.add_row("pulse", _pulse(found))
    if not found.clocks.steady:
        table.add_row("clocks", f"jumped {duration(found.clocks.jumped_ns)}, "
                                f"slept {duration(found.clocks.slept_ns)}")  # fmt: skip
    return table


def _trust(found: Steadiness) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("figure", "asked", "noise floor", "here"):
        table.add_column(name, justify="left" if name in ("figure", "here") else "right")
    for row in found.trust:
        verdict = "can be trusted" if row.measurable else "not measurable"
        table.add_row(row.figure, _share(row.asked), _share(row.floor), verdict)
    return table


def _cores(cores: Cores, quota: Quota | None) -> str:
    text = str(cores.count)
    if cores.hybrid:
        text += f", of speeds {', '.join(f'{speed:.2f}' for speed in cores.speeds)}"
    if quota is not None and quota.cores is not None:
        text += f", of which a quota allows {quota.cores:g}"
    return text


def _pulse(found: Steadiness) -> str:
    assert found.pulse is not None
    parts = (
        ("arithmetic", found.pulse.arithmetic_ns),
        ("memory", found.pulse.memory_ns),
        ("wake-up", found.pulse.wakeup_ns),
    )
    return ", ".join(f"{name} {duration(ns)}" for name, ns in parts)


def _share(share: float | None) -> str:
    return "not counted here" if share is None else f"{100 * share:.1f} %"
