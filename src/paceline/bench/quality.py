"""Trains workloads until they are good enough, and keeps how long that took."""

import json
from collections.abc import Sequence

from paceline.bench.asked import Sweep, to_quality
from paceline.bench.catalogue import chosen, missing, named
from paceline.bench.errors import BenchError
from paceline.bench.kept import KeptRow, keep, rows
from paceline.bench.point import Key, Reached
from paceline.bench.sweep import Told, command
from paceline.errors import PacelineError
from paceline.launch import Process, run


def trained(sweep: Sweep, told: Told) -> tuple[tuple[Reached, ...], dict[str, str]]:
    """Each workload at its own batch to its own target; what was trained before is not trained
    again. Beside them what could not be trained, and why."""
    sweep.folder.mkdir(parents=True, exist_ok=True)
    failed: dict[str, str] = {}
    for key in wanted(sweep):
        if kept_of(key, sweep) is not None:
            continue
        if sweep.over:
            failed[str(key)] = "the time was spent; run it again, which goes on from here"
            continue
        told(f"{key}, to its quality")
        try:
            keep(sweep.folder, KeptRow(to_quality(sweep).setting, reached=_trained(key, sweep)))
        except PacelineError as error:
            failed[str(key)] = str(error)
    found = (kept_of(key, sweep) for key in wanted(sweep))
    return tuple(row for row in found if row is not None), failed


def wanted(sweep: Sweep) -> Sequence[Key]:
    """The batch that each trains with, unless one is asked for."""
    return [
        Key(name, sweep.batches[0] if sweep.batches else named(name).pace.batch, workers)
        for name in chosen(sweep.names)
        for workers in sweep.workers
    ]


def kept_of(key: Key, sweep: Sweep) -> Reached | None:
    """The last training of that key, with the sweep's setting."""
    kept = rows(sweep.folder, to_quality(sweep).setting)
    mine = [row.reached for row in kept if row.reached is not None]
    same = [each for each in mine if Key(each.workload, each.batch, each.workers) == key]
    return same[-1] if same else None


def _trained(key: Key, sweep: Sweep) -> Reached:
    what = named(key.workload)
    if lacking := missing(what):
        raise BenchError(f"{key.workload} needs {', '.join(lacking)}: pip install paceline[bench]")
    out, log = (sweep.folder / f"{key.workload}-w{key.workers}.{end}" for end in ("json", "log"))
    given = ["--quality", "--out", str(out), "--threads", str(sweep.threads)]
    if sweep.data is not None:
        given += ["--data", str(sweep.data)]
    code = run(Process(command(key, *given), log=log))
    if code != 0:
        raise BenchError(f"{key} ended with exit code {code}; {log} says why")
    ended = json.loads(out.read_text())
    out.unlink()
    log.unlink()
    return Reached(
        workload=key.workload,
        workers=key.workers,
        batch=key.batch,
        metric=what.quality.metric,
        target=what.quality.target,
        quality=ended["quality"],
        reached=ended["reached"],
        steps=ended["steps"],
        seconds=ended["seconds"],
    )
