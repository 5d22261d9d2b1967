"""Place the ops of a graph on devices: least maximum load, or least latency, with a proven gap.

The graph is a recorded RUN (one rank's forward and backward ops), or `--input FILE` in the
published JSON format. The split is printed in that format.
"""

import argparse
import math
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.errors import FileError, PacelineError

if TYPE_CHECKING:
    from paceline.place.operators import Answer, Baseline, Drawn, Problem

GBIT = 1e9 / 8


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", type=Path, help="a recorded run or a saved graph")
    parser.add_argument("--input", type=Path, metavar="FILE", help="a problem in JSON")
    _devices(parser.add_argument_group("devices (what FILE says, unless given)"))
    _questions(parser.add_argument_group("question"))
    _limits(parser.add_argument_group("limits"))
    _extras(parser.add_argument_group("beside the answer"))


def _devices(group: Any) -> None:
    group.add_argument("--devices", type=int, metavar="N", help="accelerators")
    group.add_argument("--cpus", type=int, metavar="N", help="CPUs beside them")
    group.add_argument("--memory", type=float, metavar="SIZE", help="bytes per accelerator")
    group.add_argument(
        "--gbit", type=float, default=100.0, help="link rate for RUN, in Gbit/s (100)"
    )
    group.add_argument("--rank", type=int, help="rank of RUN to place (the first)")
    group.add_argument("--step", type=int, help="step of RUN to place (the first with a backward)")


def _questions(group: Any) -> None:
    group.add_argument(
        "--noncontiguous", action="store_true", help="a device may get any set of ops"
    )
    group.add_argument("--latency", action="store_true", help="minimise the time of one sample")
    group.add_argument(
        "--subgraphs", type=int, default=1, metavar="Q", help="pieces per accelerator (--latency)"
    )
    group.add_argument(
        "--replicate",
        type=int,
        default=1,
        metavar="R",
        help="a stage may run on up to R accelerators",
    )
    group.add_argument(
        "--sync-rate", type=float, metavar="SIZE", help="memory units per unit of time (R > 1)"
    )
    group.add_argument("--solver", choices=("cp-sat", "highs"), default="cp-sat",
                       help="of --noncontiguous (cp-sat)")  # fmt: skip


def _limits(group: Any) -> None:
    group.add_argument("--time-limit", type=float, default=60.0, metavar="S",
                       help="seconds to search (60)")  # fmt: skip
    group.add_argument("--max-ideals", type=int, default=400_000, metavar="N",
                       help="ideals that an exact answer may take (400,000)")  # fmt: skip
    group.add_argument("--threads", type=int, metavar="N", help="threads of the solver (all cores)")


def _extras(group: Any) -> None:
    group.add_argument("--compare", action="store_true", help="also show other methods")
    group.add_argument("--expert", type=Path, metavar="FILE", help="a split to compare with")
    group.add_argument("--svg", type=Path, metavar="FILE", help="draw the placement")


def run(options: argparse.Namespace) -> Shown:
    from paceline.place.operators import svg

    drawn = _drawn(options)
    problem, answer = drawn.problem, _answer(drawn.problem, options)
    answer = replace(answer, notes=(*drawn.notes, *answer.notes))
    others = _others(problem, options) if answer.split else []
    if options.svg and answer.split:
        title = f"{answer.goal.value} {answer.value:.4f}, proven within {answer.gap:.2%}"
        _write(options.svg, svg(problem, answer, title))
    data = _data(problem, answer, others)
    if drawn.results:
        data["results_known"] = drawn.results
    return Shown(
        data, lambda console: _render(problem, answer, others, console), 0 if answer.split else 1
    )


def _drawn(options: argparse.Namespace) -> "Drawn":
    from paceline.place.operators import Drawn, Target, check, drawn_from, read_problem

    if (options.run is None) == (options.input is None):
        raise PacelineError("give either a RUN or --input FILE")
    if options.input is not None:
        problem = read_problem(options.input)
        problem = check(problem.with_devices(options.devices, options.cpus, options.memory))
        return Drawn(problem, {}, ())
    from paceline.trace.runs import open_run

    if options.devices is None:
        raise PacelineError("say how many accelerators to place RUN on: --devices N")
    memory = math.inf if options.memory is None else options.memory
    target = Target(options.devices, options.gbit * GBIT, memory, options.rank, options.step)
    drawn = drawn_from(open_run(options.run), target)
    return replace(drawn, problem=check(drawn.problem.with_devices(cpus=options.cpus)))


def _answer(problem: "Problem", options: argparse.Namespace) -> "Answer":
    from paceline.place.operators import (
        Limits,
        Solver,
        place_contiguous,
        place_latency,
        place_noncontiguous,
    )

    limits = Limits(seconds=_positive(options.time_limit, "--time-limit"))
    threads = limits.threads if options.threads is None else options.threads
    limits = Limits(
        limits.seconds,
        int(_positive(options.max_ideals, "--max-ideals")),
        int(_positive(threads, "--threads")),
    )
    if options.latency:
        return place_latency(problem, limits, options.subgraphs)
    if options.noncontiguous:
        return place_noncontiguous(problem, limits, Solver(options.solver))
    return place_contiguous(problem, limits, _replication(options))


def _replication(options: argparse.Namespace) -> Any:
    from paceline.place.operators import Replication

    if options.replicate == 1:
        return None
    if options.sync_rate is None:
        raise PacelineError("--replicate needs --sync-rate: memory units moved a unit of time")
    return Replication(
        int(_positive(options.replicate, "--replicate")),
        _positive(options.sync_rate, "--sync-rate"),
    )


def _positive(value: float, option: str) -> float:
    if not value > 0:
        raise PacelineError(f"{option} is {value}; it must be above 0")
    return value


def _others(problem: "Problem", options: argparse.Namespace) -> list["Baseline"]:
    from paceline.place.operators import baselines, expert, read_split

    found = baselines(problem) if options.compare else []
    if options.expert:
        found.append(expert(problem, read_split(options.expert, problem)))
    return found


def _data(problem: "Problem", answer: "Answer", others: list["Baseline"]) -> dict[str, Any]:
    from paceline.place.operators import Goal, split_json

    split = answer.split
    max_load = split.max_load(problem) if split else None
    data: dict[str, Any] = {
        "goal": answer.goal.value,
        "outcome": answer.outcome.value,
        "method": answer.method,
        "max_load": max_load,
        "lower_bound": _finite(answer.lower_bound),
        "gap": _finite(answer.gap),
        "seconds": answer.seconds,
        "peak_mb": _peak_mb(),
        "notes": list(answer.notes),
        "ideals": answer.ideals,
        "nested_pairs_visited": answer.pairs,
        "split": split_json(problem, split, max_load) if split and max_load is not None else None,
    }
    if answer.goal is Goal.LATENCY:
        data["latency"] = _finite(answer.value)
    if answer.schedule is not None:
        data["subgraphs"] = [
            [problem.ids[rows].tolist() for rows in own] for own in answer.schedule.pieces
        ]
    if others:
        data["baselines"] = {b.name: {"max_load": b.max_load, "valid": b.valid} for b in others}
    return data


def _peak_mb() -> float:
    """Highest resident memory of this process in MB; not a number where the system does not tell.
    (`getrusage` would count the parent's at the time of the fork.)"""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(float(x.split()[1]) * 1024 / 1e6 for x in lines if x.startswith("VmHWM"))
    except (OSError, StopIteration):
        if find_spec("resource") is None:
            return math.nan
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _render(problem: "Problem", answer: "Answer", others: list["Baseline"], console: Any) -> None:
    from rich.table import Table

    from paceline.place.operators import device_names

    for note in answer.notes:
        console.print(f"note: {note}")
    if answer.split is None:
        console.print(f"{answer.outcome.value} after {answer.seconds:.2f} s")
        return
    console.print(
        f"{answer.goal.value} {answer.value:.4f} ({answer.outcome.value}, {answer.method}), "
        f"bound {answer.lower_bound:.4f}, gap {answer.gap:.3%}, {answer.seconds:.2f} s"
    )
    loads = answer.split.loads(problem)
    table = Table("device", "nodes", "size", "load", "")
    for name, part, load in zip(device_names(answer.split), answer.split.parts, loads):
        size = f"{float(problem.size[part.rows].sum()):.4g}"
        bar = "█" * round(40 * load / (max(loads) or 1.0))
        table.add_row(name, str(len(part.rows)), size, f"{load:.4f}", bar)
    console.print(table)
    for other in others:
        value = "no split" if other.max_load is None else f"{other.max_load:.4f}"
        broken = "" if other.valid or other.max_load is None else " (breaks a limit)"
        console.print(f"  {other.name}: {value}{broken}")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror}") from error
