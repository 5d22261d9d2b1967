"""Plan a pipeline: depth, width, micro-batch, recomputation and schedule, with memory and speed.

PROFILE is a JSON file of what each layer costs at one or more micro-batch sizes (docs/how/
pipelines.md), or a recorded run or saved graph with `--microbatch` samples per step. Each plan is
priced by the published formula and by replaying its graph, side by side.

With `--cluster` the machines may be far apart: neighbours stay together, the model is cut where
little passes slow links, and with `--compress` only the largest activations pass them.
"""

import argparse
import math
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.errors import PacelineError

if TYPE_CHECKING:
    from paceline.place.pipeline import Fleet, HierarchicalPlan, PipelineProfile, Priced

GBIT = 1e9 / 8
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble", "2bw")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", type=Path, help="a JSON profile, a recorded run, or a graph")
    parser.add_argument("--devices", type=int, metavar="N", help="devices to use")
    parser.add_argument("--cluster", type=Path, metavar="FILE",
                        help="the machines and their links, in place of --devices")  # fmt: skip
    parser.add_argument("--compress", type=float, default=0.0, metavar="C",
                        help="with --cluster: the slowest border's messages become C times as "
                        "short (0: all passes whole)")  # fmt: skip
    parser.add_argument("--global-batch", type=int, required=True, metavar="SAMPLES",
                        help="samples per step of all devices")  # fmt: skip
    parser.add_argument("--microbatch", type=int, default=1, help="samples per recorded step (1)")
    parser.add_argument(
        "--memory", type=float, default=math.inf, help="bytes per device (no limit)"
    )
    parser.add_argument(
        "--gbit", type=float, default=100.0, help="link rate between servers, in Gbit/s (100)"
    )
    parser.add_argument("--gbit-inside", type=float,
                        help="link rate within a server (as between servers)")  # fmt: skip
    parser.add_argument("--per-server", type=int, default=1, help="devices per server (1)")
    parser.add_argument("--latency-us", type=float, default=0.0, help="latency of a message (0)")
    parser.add_argument("--schedule", choices=SCHEDULES, action="append",
                        help="only this schedule; may be repeated")  # fmt: skip
    parser.add_argument("--chunks", type=int, default=2,
                        help="chunks per stage, when interleaved (2)")  # fmt: skip
    parser.add_argument("--best", type=int, default=12, metavar="N",
                        help="show the N best plans (12)")  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    if options.cluster is not None:
        return _far_apart(options)
    if options.devices is None or options.compress:
        raise PacelineError("give --devices N, or --cluster FILE, with which --compress goes")
    from paceline.place.pipeline import Search, plan_pipeline
    from paceline.runtime.stages import PipelineSchedule

    profile, fleet = _profile(options), _fleet(options)
    schedules = tuple(PipelineSchedule(name) for name in options.schedule or SCHEDULES)
    search = Search(options.global_batch, schedules, options.chunks, options.best)
    plans = plan_pipeline(profile, fleet, search)
    uneven = _uneven(profile, fleet)
    data = {
        "notes": list(profile.notes),
        "plans": [_row(plan) for plan in plans],
        "uneven_stages": [vars(stage) for stage in uneven.stages],
        "uneven_slowest_ns": uneven.slowest_ns,
    }
    return Shown(data, lambda console: _render(profile.notes, plans, uneven, console))


def _far_apart(options: argparse.Namespace) -> Shown:
    from paceline.cluster import load
    from paceline.place.distant import Rates, Search, plan_distant

    cluster, profile = load(options.cluster), _profile(options)
    search = Search(options.global_batch, (1.0,) * cluster.workers, options.compress)
    plans = plan_distant(profile, Rates.of(cluster), search)[: options.best]
    names = [cluster.hosts[host].name for host, _ in cluster.places]
    rows = [{**vars(plan), "hosts": [names[at] for at in plan.order]} for plan in plans]
    return Shown({"plans": rows}, lambda console: _render_far(rows, console))


def _render_far(rows: list[dict[str, Any]], console: Any) -> None:
    from paceline.report.text.quantities import duration
    from paceline.report.text.table import plain_table

    columns = ["hosts, first stage first", "layers", "micro-batches", "passes", "step"]
    cells = [
        (
            " > ".join(row["hosts"]),
            ", ".join(f"{a}-{b - 1}" for a, b in pairwise(row["cuts"])),
            f"{row['microbatches']} of {row['microbatch']}",
            ", ".join(f"{share:.0%}" for share in row["shares"]),
            duration(row["step_ns"]),
        )
        for row in rows
    ]
    console.print(plain_table("pipelines over these machines, 1F1B", columns, cells))


def _profile(options: argparse.Namespace) -> "PipelineProfile":
    from paceline.place.pipeline import profile_of, read_profile
    from paceline.trace.runs import open_run

    if options.profile.suffix == ".json":
        return read_profile(options.profile)
    return profile_of(open_run(options.profile), options.microbatch)


def _fleet(options: argparse.Namespace) -> "Fleet":
    from paceline.place.pipeline import Fleet

    if min(options.chunks, options.global_batch, options.best) < 1:
        raise PacelineError("--chunks, --global-batch and --best must be 1 or more")
    inside = options.gbit if options.gbit_inside is None else options.gbit_inside
    return Fleet(
        options.devices,
        options.memory,
        options.gbit * GBIT,
        inside * GBIT,
        options.per_server,
        round(options.latency_us * 1e3),
    )


def _uneven(profile: "PipelineProfile", fleet: "Fleet") -> "HierarchicalPlan":
    """PipeDream's plan at the smallest micro-batch: stages may differ in length and width."""
    from paceline.place.pipeline import Level, plan_hierarchical

    inside = min(fleet.per_server, fleet.devices)
    levels = [Level(inside, fleet.inside_bytes_per_s)] if inside > 1 else []
    if fleet.devices > inside or not levels:
        levels.append(Level(fleet.devices // inside, fleet.bytes_per_s))
    return plan_hierarchical(profile.sizes[min(profile.sizes)], levels)


def _row(plan: "Priced") -> dict[str, Any]:
    how = plan.plan
    return {
        "schedule": how.schedule.value,
        "width": how.width,
        "depth": how.shape.stages,
        "chunks": how.shape.chunks,
        "microbatch": how.microbatch,
        "microbatches": how.shape.microbatches,
        "recompute": how.recompute,
        "memory_bytes": plan.formula_memory_bytes,
        "replayed_memory_bytes": plan.replayed_memory_bytes,
        "formula_step_ns": plan.formula_step_ns,
        "replayed_step_ns": plan.replayed_step_ns,
        "formula_samples_per_s": plan.formula_per_s,
        "replayed_samples_per_s": plan.replayed_per_s,
    }


def _render(
    notes: tuple[str, ...], plans: "list[Priced]", uneven: "HierarchicalPlan", console: Any
) -> None:
    from rich.table import Table

    for note in notes:
        console.print(f"note: {note}")
    table = Table(title="Plans that fit; rates in samples/s")
    for name in ("schedule", "w x d", "batch", "recompute"):
        table.add_column(name, no_wrap=True)
    for name in ("memory", "formula", "replayed"):
        table.add_column(name, justify="right")
    for priced in plans:
        plan = priced.plan
        table.add_row(
            plan.schedule.value,
            f"{plan.width} x {plan.shape.stages}",
            f"{plan.shape.microbatches} of {plan.microbatch}",
            "yes" if plan.recompute else "no",
            f"{priced.formula_memory_bytes / 1e9:.3g} GB",
            f"{priced.formula_per_s:,.1f}",
            f"{priced.replayed_per_s:,.1f}",
        )
    console.print(table)
    stages = ", ".join(f"{s.first}-{s.end - 1} on {s.devices}" for s in uneven.stages)
    console.print(f"PipeDream's planner (uneven stages, memory aside): layers {stages}")
