"""Incast of gradients: TCP's congestion controls and the transport over identical shaped queues.

All contenders take turns in blocks of ten rounds in one lab of network namespaces, so that they
meet the same minutes of the same machine. TCP runs on sockets of its own, which spare it gloo's
work; `--gloo` measures TCP under gloo instead, beside the transport and one TCP without gloo. TCP's
minimum retransmission time is 5 ms and its segments are not batched. A round lasts from the
receiver's asking to its slowest sender's end. `ideal` is the link carrying all values in datagrams
without a header of ours; `bounded_p99_of_ideal` takes only those needed.

`important_lost` and `important_p99_ms` are of packets that matter while 130 % of a link is offered;
`spray_of_one_path` is the transport's rate over two paths of half a link each, packets sprayed,
over its rate on one of them (in the same minute).

Cases are kept as they come; the next run goes on behind them.

    python benchmarks/speed/incast.py --json
"""

import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import kept, measure
from paceline.lab.incast import IncastRow, Setting, incast, summary
from paceline.lab.overload import Load, overload
from paceline.lab.spraying import sprayed
from paceline.wire.contenders import GLOO, LOSSLESS, ONE_PERCENT, TCP, TEN_PERCENT

SETTINGS = (Setting(senders=4), Setting(senders=8, size_bytes=250_000))
"""The first is the headline."""
SOCKETS = (*TCP, LOSSLESS, ONE_PERCENT, TEN_PERCENT)
UNDER_GLOO = (*GLOO, TCP[0], TEN_PERCENT)


def main(arguments: list[str] | None = None) -> None:
    parser = measure.parser(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--budget", type=float, default=60.0, metavar="MINUTES")
    parser.add_argument("--gloo", action="store_true", help="TCP under gloo, and nothing else")
    options = parser.parse_args(arguments)
    rounds = 20 if options.quick else options.rounds
    settings = SETTINGS[:1] if options.quick else SETTINGS
    makers: dict[str, Callable[[], kept.Row]] = {
        f"{setting.senders} senders, {rounds} rounds": partial(
            under_gloo if options.gloo else case, setting, rounds
        )
        for setting in settings
    }
    if options.gloo:
        cases = list(kept.rows("incast-gloo", makers, options.budget).values())
        first = cases[0]["figures"] if cases else {}
        measure.report("speed/incast-gloo", {**first, "cases": cases}, options)
        return
    makers["overload, quick" if options.quick else "overload"] = partial(overloaded, options.quick)
    makers[f"two paths, {rounds} rounds"] = partial(over_two_paths, max(10, rounds // 10))
    rows = list(kept.rows("incast", makers, options.budget).values())
    told = [row for row in rows if "figures" in row]
    others = [row for row in rows if "figures" not in row]
    switch = {name: value for row in others for name, value in row.items() if name != "load"}
    headline = told[0]["figures"] if told else {}
    measure.report("speed/incast", {**headline, **switch, "cases": told}, options)


def case(setting: Setting, rounds: int) -> dict[str, Any]:
    """One setting's rows, and its headline."""
    rows = [summary(setting, timed) for timed in incast(setting, SOCKETS, rounds)]
    return {"setting": asdict(setting), "rows": shown(rows), "figures": figures(setting, rows)}


def shown(rows: list[IncastRow]) -> list[dict[str, Any]]:
    return [{**asdict(row), "p99_of_ideal": row.p99_of_ideal} for row in rows]


def under_gloo(setting: Setting, rounds: int) -> dict[str, Any]:
    rows = [summary(setting, timed) for timed in incast(setting, UNDER_GLOO, rounds)]
    named = {row.name: row.p99_ms for row in rows}
    best = min(named[one.name] for one in GLOO)
    told = {
        "tuned_gloo_p99": best,
        "bounded_p99_of_tuned_gloo": named[TEN_PERCENT.name] / best,
    }
    return {"setting": asdict(setting), "rows": shown(rows), "figures": told}


def figures(setting: Setting, rows: list[IncastRow]) -> dict[str, Any]:
    named = {row.name: row for row in rows}
    bounded, lossless = named[TEN_PERCENT.name], named[LOSSLESS.name]
    tcp = min(row.p99_ms for row in rows if row.is_tcp)
    return {
        "ideal": setting.ideal_ns / 1e6,
        "tuned_tcp_p99": tcp,
        "no_loss_p99": lossless.p99_ms,
        "bounded_p99": bounded.p99_ms,
        "bounded_p99_of_ideal": bounded.p99_of_ideal,
        "bounded_p99_of_tuned_tcp": bounded.p99_ms / tcp,
        "no_loss_p99_of_tuned_tcp": lossless.p99_ms / tcp,
        "bounded_dropped": bounded.lost_share,
    }


def overloaded(quick: bool) -> dict[str, Any]:
    """What a switch drops, and how long it keeps what it does not."""
    load = Load(seconds=3 if quick else 30)
    found = overload(load)
    return {
        "offered": found.offered,
        "important_lost": found.important.lost_share,
        "important_p99_ms": found.important.p99_ns / 1e6,
        "other_lost": found.other.lost_share,
    }


def over_two_paths(rounds: int) -> dict[str, Any]:
    found = sprayed(SETTINGS[0], rounds)
    return {"one_path_bits_per_s": found.one_path, "spray_of_one_path": found.gain}


if __name__ == "__main__":
    main()
