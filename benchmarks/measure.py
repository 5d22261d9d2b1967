"""How every benchmark measures and reports: interleaved runs, medians, machine, load, JSON.

A benchmark is `main(arguments)` with `--json`, `--quick` and `--save`; its figures go through
`report`, which adds date, machine, versions and load, so that no result file lacks them. What is
to be kept is measured on a quiet machine or not at all: `--save` waits for that, and gives up.
Accuracies, bytes and counts are the same on a busy machine: a benchmark of such figures does not
wait, and names those among them that are of time, which a busy machine leaves out.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import floors
from paceline.machine import processor, take_pulse, typical_pulse

RESULTS = Path(__file__).parent / "results"
QUIET = 1.25 * (os.cpu_count() or 1)
"""The load above which nothing is kept; a benchmark's own processes count once it has begun."""
PATIENCE_S = 300.0


def parser(description: str, *, waits: bool = True) -> argparse.ArgumentParser:
    """Arguments that every benchmark has. Where only some figures are of time, or none, `--save`
    need not wait for a quiet machine."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", action="store_true", help="print one JSON object last")
    made.add_argument("--quick", action="store_true", help="a minute at most")
    kept = "keep the result in benchmarks/results"
    if waits:
        made.add_argument("--save", action=_Save, help=f"{kept}; waits for quiet")
    else:
        told = f"{kept}; on a busy machine without the figures of time"
        made.add_argument("--save", action="store_true", help=told)
    return made


class _Save(argparse.Action):
    """`--save`: true, once the machine's load is low enough to publish what is measured."""

    def __init__(self, option_strings: Sequence[str], dest: str, **given: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=False, **given)

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, *_: Any) -> None:
        if not settled(QUIET, PATIENCE_S):
            parser.error(
                f"the load has been above {QUIET:g} for {PATIENCE_S:g} s; figures taken beside "
                "other work are not kept. End that work, or measure without --save"
            )
        setattr(namespace, self.dest, True)


def is_crowded() -> bool:
    """Whether figures of time that are taken now are not to be kept."""
    return os.getloadavg()[0] > QUIET


def settled(limit: float, patience_s: float, pause_s: float = 5.0) -> bool:
    """Whether the load over the last minute falls below the limit in time."""
    end = time.monotonic() + patience_s
    while os.getloadavg()[0] > limit:
        if time.monotonic() + pause_s > end:
            return False
        time.sleep(pause_s)
    return True


def interleave(
    candidates: Mapping[str, Callable[[], Any]], rounds: int, *, warmup: int = 1
) -> dict[str, dict[str, list[float]]]:
    """Run the candidates in turn, A B A B ...; wall and CPU seconds of each counted run."""
    times: dict[str, dict[str, list[float]]] = {n: {"wall": [], "cpu": []} for n in candidates}
    for turn in range(warmup + rounds):
        for name, run in candidates.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if turn >= warmup:
                times[name]["wall"].append(wall)
                times[name]["cpu"].append(cpu)
    return times


def spread(samples: list[float]) -> dict[str, float]:
    """Median with its spread."""
    ordered = sorted(samples)
    last = len(ordered) - 1
    return {
        "median": statistics.median(ordered),
        "p10": ordered[round(0.1 * last)],
        "p90": ordered[round(0.9 * last)],
        "min": ordered[0],
        "max": ordered[-1],
        "n": len(ordered),
    }


def peak_mb() -> float:
    """Highest resident memory of this process so far, in MB (10^6 bytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def machine() -> dict[str, Any]:
    return {
        "cpu": processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
    }


def pulse_us() -> dict[str, float]:
    """How fast the machine is just now: the median of some pulses."""
    found = typical_pulse([take_pulse() for _ in range(9)])
    assert found is not None, "some were taken"
    parts = {
        "arithmetic": found.arithmetic_ns,
        "memory": found.memory_ns,
        "wakeup": found.wakeup_ns,
    }
    return {name: round(ns / 1e3, 1) for name, ns in parts.items()}


def versions(*libraries: str) -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("paceline", "numpy", *libraries):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def without_times(figures: Mapping[str, Any], timed: Sequence[str]) -> dict[str, Any]:
    """Figures of a busy machine: those of time are left out, and named."""
    return {**figures, **dict.fromkeys(timed), "left_out_for_load": list(timed)}


def report(
    name: str, figures: Mapping[str, Any], options: argparse.Namespace, *libraries: str
) -> dict[str, Any]:
    """Complete the figures, print them, and keep them where `--save` asks for it; ends the program
    where the machine was too noisy for them."""
    result = {
        "benchmark": name,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "pulse_us": pulse_us(),
        "versions": versions(*libraries),
        "load": [round(x, 2) for x in os.getloadavg()],
        "quick": bool(options.quick),
        **figures,
    }
    refused = floors.refusal(figures)
    if options.save and refused is None:
        RESULTS.mkdir(parents=True, exist_ok=True)
        day = result["date"][:10]
        path = RESULTS / f"{day}-{name.replace('/', '-')}.json"
        path.write_text(json.dumps(result, indent=2) + "\n")
        print(f"kept in {path.relative_to(RESULTS.parents[1])}", file=sys.stderr)
    if options.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key}: {value}")
    if refused is not None:
        print(refused, file=sys.stderr)
        raise SystemExit(floors.NOT_MEASURABLE)
    return result
