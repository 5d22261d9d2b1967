"""The transport with each of its parts switched off in turn, beside TCP's congestion controls.

The incast of `benchmarks/speed/incast.py` (4 senders of 500 KB at 100 Mbit/s, queues of 64 KB) in
three settings: no loss, 1 % of packets lost at random, and bursts of 4 ms. In each setting all
contenders take turns in blocks of ten rounds. A setting is measured in parts of 100 rounds, which
are kept as they come; the next run goes on behind them. `part_p99_ms` is the median of the parts'
own p99s: what stops a lab for a second lengthens the rounds of a block or two, and so the p99 of
all rounds of whoever had the turn.

    python benchmarks/speed/ablations.py --json --rounds 1000
"""

import statistics
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.speed.incast import shown

from benchmarks import kept, measure
from paceline.lab.incast import Setting, incast, summary
from paceline.wire.contenders import ABLATIONS, MAIN, Timed, timed_from_json, timed_to_json

SETTINGS = {
    "none": Setting(),
    "random": Setting(loss=0.01),
    "bursts": Setting(loss=0.05, loss_burst_ms=4),
}
"""By what the network loses."""
PART = 100  # rounds


def main(arguments: list[str] | None = None) -> None:
    parser = measure.parser(__doc__.splitlines()[0])
    parser.add_argument("--only", choices=SETTINGS, help="one setting, say beside the others")
    parser.add_argument("--rounds", type=int, default=1000, help=f"a multiple of {PART}")
    parser.add_argument("--budget", type=float, default=120.0, metavar="MINUTES", help="a setting")
    options = parser.parse_args(arguments)
    rounds = 5 if options.quick else PART
    parts = 1 if options.quick else max(1, options.rounds // PART)
    wanted = [options.only] if options.only else list(SETTINGS)
    cases = {name: case(SETTINGS[name], parts_of(name, parts, rounds, options)) for name in wanted}
    measure.report("speed/ablations", {"cases": cases}, options)


def parts_of(name: str, parts: int, rounds: int, options: Namespace) -> list[kept.Row]:
    makers: dict[str, Callable[[], kept.Row]] = {
        f"part {part} of {rounds} rounds": partial(timed, SETTINGS[name], rounds)
        for part in range(parts)
    }
    return list(kept.rows(f"ablations-{name}", makers, options.budget).values())


def timed(setting: Setting, rounds: int) -> kept.Row:
    return {"timed": timed_to_json(incast(setting, (*MAIN, *ABLATIONS), rounds))}


def case(setting: Setting, rows: Sequence[kept.Row]) -> dict[str, Any]:
    """One setting's contenders over all its parts, and the loads that they met."""
    parts = [timed_from_json(row["timed"]) for row in rows]
    return {
        "setting": asdict(setting),
        "ideal_ms": setting.ideal_ns / 1e6,
        "loads": sorted(row["load"] for row in rows),
        "rows": [over_parts(setting, same) for same in zip(*parts)],
    }


def over_parts(setting: Setting, parts: Sequence[Timed]) -> dict[str, Any]:
    """One contender's row."""
    (whole,) = shown([summary(setting, joined(parts))])
    return whole | {"part_p99_ms": statistics.median(summary(setting, x).p99_ms for x in parts)}


def joined(parts: Sequence[Timed]) -> Timed:
    """One contender's rounds of all parts, one behind the other."""
    first = parts[0]
    return Timed(
        first.contender,
        tuple(ns for part in parts for ns in part.round_ns),
        tuple(size for part in parts for size in part.missing_bytes),
        {name: sum(part.counters[name] for part in parts) for name in first.counters},
    )


if __name__ == "__main__":
    main()
