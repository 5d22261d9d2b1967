"""`join_runs`: recordings of several hosts, made in separate folders, become one run.

Each host's launcher gave its recording a name of its own; what else names the job (the rendezvous,
its address) is the same on all. Before anything is written the parts are checked: each rank once
and none missing, one model, the same steps at the same time. The graph of the whole sets the
clocks, as it does for every run.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from paceline.errors import TraceError
from paceline.graph import Graph, save_graph
from paceline.graph.atomic import atomic_folder
from paceline.graph.files import KEPT
from paceline.record import sidecar
from paceline.record.job import JOB_NAME, RecordedJob, job_of, keep_job
from paceline.record.sidecar import Mode, RecordedHost, Sidecar
from paceline.trace.identity import identity_of, keep_identity
from paceline.trace.runs import build_run

UNSYNCHRONISED_NS: Final = 60_000_000_000
"""Hosts whose clocks are set at all differ by less than this."""


@dataclass(frozen=True, eq=False)
class HostRecording:
    """One host's recording."""

    folder: Path
    job: RecordedJob
    ranks: dict[int, Sidecar]

    @cached_property
    def host(self) -> RecordedHost:
        return next(iter(self.ranks.values())).of(RecordedHost)[0]

    @property
    def rendezvous(self) -> str:
        """What all hosts of a job share of its name."""
        return self.host.job.removeprefix(self.job.job).lstrip("/")

    @property
    def model(self) -> list[tuple[str, tuple[int, ...], int]]:
        told = next(iter(self.ranks.values())).of(sidecar.Parameter)
        return sorted((p.name, p.shape, p.size_bytes * p.shards) for p in told)

    @property
    def steps(self) -> dict[int, int]:
        """When each recorded step began that all of its ranks have."""
        found = [
            {s.index: s.begin_ns for s in each.of(sidecar.Step) if s.mode is Mode.RECORDED}
            for each in self.ranks.values()
        ]
        return {i: found[0][i] for i in sorted(set.intersection(*map(set, found)))}


def join_runs(folders: Sequence[Path], out: Path) -> Graph:
    """Write the run of all ranks to `out`, with its graph. Nothing is left there where it fails."""
    parts = [read_recording(folder) for folder in folders]
    require_together(parts)
    with atomic_folder(out, may_replace=lambda _: False) as hidden:
        for part in parts:
            _copy(part, parts[0], hidden)
        keep_job(_whole(parts), hidden)
        made = build_run(hidden)
        graph = replace(made, meta={**made.meta, "run": out.name})
        save_graph(graph, hidden / KEPT)
        keep_identity(identity_of(hidden), hidden)
    return graph


def read_recording(folder: Path) -> HostRecording:
    """A folder that `paceline record` made; every rank in it must have a trace."""
    files = sorted(folder.glob("rank-*.facts.jsonl"))
    if not files or not (folder / JOB_NAME).is_file():
        raise TraceError(
            f"{folder} holds no recording. Give the folders that `paceline record -o` made, one "
            "of each host"
        )
    told = [(path, sidecar.read(path)) for path in files]
    if empty := [path.name for path, each in told if not each.of(RecordedHost)]:
        raise TraceError(f"{folder / empty[0]} does not say which rank it is; record again")
    ranks = {each.of(RecordedHost)[0].rank: each for _, each in told}
    lost = [str(rank) for rank in ranks if not (folder / sidecar.trace_name(rank)).exists()]
    if lost:
        raise TraceError(f"rank {', '.join(lost)} has no trace in {folder}; record again")
    return HostRecording(folder, job_of(folder), ranks)


def require_together(parts: Sequence[HostRecording]) -> None:
    """Refuse parts that do not make up one job."""
    _require_alike(parts)
    _require_ranks(parts)
    _require_steps(parts)


_ALIKE: Final[dict[str, Callable[[HostRecording], Any]]] = {
    "another number of processes": lambda part: part.host.world_size,
    "another rendezvous": lambda part: part.rendezvous,
    "another communication backend": lambda part: part.host.backend,
    "another model": lambda part: part.model,
}


def _require_alike(parts: Sequence[HostRecording]) -> None:
    for what, tell in _ALIKE.items():
        first = tell(parts[0])
        for part in parts[1:]:
            if (other := tell(part)) != first:
                shown = f" ({_short(first)} and {_short(other)})"
                raise TraceError(
                    f"{part.folder} is of another job than {parts[0].folder}: {what}{shown}. "
                    "Join recordings of one job"
                )


def _short(value: Any) -> str:
    return f"{len(value)} parameters" if isinstance(value, list) else repr(value)


def _require_ranks(parts: Sequence[HostRecording]) -> None:
    places: dict[int, list[Path]] = {}
    for part in parts:
        for rank in part.ranks:
            places.setdefault(rank, []).append(part.folder)
    twice = next((rank for rank in sorted(places) if len(places[rank]) > 1), None)
    if twice is not None:
        both = " and ".join(map(str, places[twice]))
        raise TraceError(f"rank {twice} is in {both}; give each host's folder once")
    missing = sorted(set(range(parts[0].host.world_size)) - set(places))
    if missing:
        has = "; ".join(f"{p.folder}: {', '.join(map(str, sorted(p.ranks)))}" for p in parts)
        raise TraceError(
            f"ranks {', '.join(map(str, missing))} of {parts[0].host.world_size} are missing "
            f"({has}). Give the other hosts' folders too"
        )


def _require_steps(parts: Sequence[HostRecording]) -> None:
    steps = {part.folder: part.steps for part in parts}
    shared = set.intersection(*(set(found) for found in steps.values()))
    if not shared:
        has = "; ".join(f"{folder}: {_span(found)}" for folder, found in steps.items())
        raise TraceError(
            f"no step was recorded on all hosts ({has}). Record with the same --steps and "
            "--plain on every host"
        )
    begins = {folder: found[min(shared)] for folder, found in steps.items()}
    first, last = (pick(begins, key=lambda f: begins[f]) for pick in (min, max))
    apart_ns = begins[last] - begins[first]
    if apart_ns > UNSYNCHRONISED_NS:
        raise TraceError(
            f"step {min(shared)} began {apart_ns / 1e9:,.0f} s later in {last} than in {first}: "
            "these are other runs of the job. Join what was recorded at one time"
        )


def _span(steps: dict[int, int]) -> str:
    return f"{min(steps)} to {max(steps)}" if steps else "none"


def _copy(part: HostRecording, first: HostRecording, out: Path) -> None:
    """A part's files, with the job's name as the first part has it."""
    for rank in part.ranks:
        for name in (sidecar.trace_name(rank), sidecar.detail_name(rank)):
            if (part.folder / name).exists():
                _link_or_copy(part.folder / name, out / name)
        name = sidecar.facts_name(rank)
        _, rest = (part.folder / name).read_bytes().split(b"\n", 1)
        host = msgspec.structs.replace(part.ranks[rank].of(RecordedHost)[0], job=first.host.job)
        (out / name).write_bytes(sidecar.encode(host) + rest)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copy2(source, target)


def _whole(parts: Sequence[HostRecording]) -> RecordedJob:
    """The first host's account, with the whole time and the first bad end."""
    codes = [part.job.exit_code for part in parts]
    return msgspec.structs.replace(
        parts[0].job,
        started_ns=min(part.job.started_ns for part in parts),
        ended_ns=max(part.job.ended_ns for part in parts),
        exit_code=next((code for code in codes if code), None if None in codes else 0),
    )
