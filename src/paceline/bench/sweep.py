"""Measures workloads at several batch sizes: records each, and keeps each row as it comes."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from shutil import rmtree
from typing import Final

from paceline.bench.catalogue import chosen, missing, module_of, named
from paceline.bench.errors import BenchError
from paceline.bench.kept import Row, keep, load_peaks, rows, save
from paceline.bench.largest import largest_fitting
from paceline.bench.measured import measured
from paceline.bench.memory_limit import DOES_NOT_FIT, free_bytes
from paceline.bench.point import Key, Point, Report, Unfit
from paceline.errors import PacelineError
from paceline.launch import Process, run
from paceline.measure.peaks import Peaks
from paceline.record.launch import RecordRequest, launch

_ALSO: Final = 14  # steps besides plain and recorded ones: warm-up, detail, and between
_KILLED: Final = (-9, 137)  # by the kernel, for want of memory
_SPARED: Final = 0.8  # of the memory that is free: so much may be taken

Told = Callable[[str], None]


@dataclass(frozen=True)
class Sweep:
    """What is measured, and where it is kept."""

    folder: Path
    names: tuple[str, ...] = ()  # all where empty
    batches: tuple[int, ...] = ()  # each workload's own where empty
    workers: tuple[int, ...] = (1,)
    threads: int = 1
    steps: int = 5  # recorded, and as many without instruments before and after
    limit_bytes: int = 0  # of a worker; 0: its part of what is free
    data: Path | None = None
    keep_runs: bool = False  # recordings too

    def keys(self) -> list[Key]:
        return [
            Key(name, batch, workers)
            for name in chosen(self.names)
            for workers in self.workers
            for batch in self.batches or named(name).pace.batches
        ]


def swept(sweep: Sweep, told: Told) -> Report:
    """Measure what is not kept yet; the report of all that was asked for."""
    wanted = sweep.keys()
    sweep.folder.mkdir(parents=True, exist_ok=True)
    peaks, failed = peaks_in(sweep.folder, sweep.threads), dict[str, str]()
    for key in wanted:
        if _is_settled(key, rows(sweep.folder)):
            continue
        told(str(key))
        try:
            keep(sweep.folder, _row(key, sweep, peaks))
        except PacelineError as error:
            failed[str(key)] = str(error)
    report = report_of(sweep.folder, wanted, peaks, failed)
    save(report, sweep.folder)
    return report


def peaks_in(folder: Path, threads: int) -> Peaks:
    """The machine's peaks, measured once for a folder and a number of threads."""
    kept = load_peaks(folder)
    if kept is not None and kept.threads == threads:
        return kept
    from paceline.measure.torch_peaks import measured_peaks

    found = measured_peaks(threads)
    save(found, folder)
    return found


def report_of(
    folder: Path, wanted: Sequence[Key], peaks: Peaks, failed: Mapping[str, str]
) -> Report:
    """What the folder holds of what is wanted."""
    kept, asked = list(rows(folder)), set(wanted)
    names = {key.workload for key in wanted}
    return Report(
        machine=peaks.machine,
        versions={name: _version(name) for name in ("paceline", "torch", "numpy")},
        flops_per_s=dict(peaks.flops_per_s),
        memory_bytes_per_s=peaks.memory_bytes_per_s,
        points=tuple(row.point for row in kept if row.point and row.point.key in asked),
        unfit=tuple(row.unfit for row in kept if row.unfit and row.unfit.key in asked),
        reached=tuple(r.reached for r in kept if r.reached and r.reached.workload in names),
        failed=tuple(failed.items()),
    )


def command(key: Key, *options: str) -> tuple[str, ...]:
    """How a workload is started: alone, or by torchrun."""
    torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node", str(key.workers), "-m")
    many = torchrun if key.workers > 1 else ()
    module = module_of(key.workload)
    return (sys.executable, "-m", *many, module, "--batch", str(key.batch), *options)


def _is_settled(key: Key, kept: Iterator[Row]) -> bool:
    """Whether it was measured, or is known not to fit."""
    for row in kept:
        if row.point is not None and row.point.key == key:
            return True
        if row.unfit is not None and _beyond(key, row.unfit):
            return True
    return False


def _beyond(key: Key, unfit: Unfit) -> bool:
    same = (unfit.key.workload, unfit.key.workers) == (key.workload, key.workers)
    return same and key.batch >= unfit.key.batch


def _row(key: Key, sweep: Sweep, peaks: Peaks) -> Row:
    if lacking := missing(named(key.workload)):
        raise BenchError(f"{key.workload} needs {', '.join(lacking)}: pip install paceline[bench]")
    limit = sweep.limit_bytes or round(_SPARED * free_bytes() / key.workers)
    point = _recorded(key, sweep, limit, peaks)
    if point is not None:
        return Row(point=point)
    smaller = [
        row.point.key.batch
        for row in rows(sweep.folder)
        if row.point and (row.point.key.workload, row.point.key.workers)
        == (key.workload, key.workers) and row.point.key.batch < key.batch
    ]  # fmt: skip
    fits = largest_fitting(
        max(smaller, default=0), key.batch,
        lambda batch: _tried(Key(key.workload, batch, key.workers), sweep, limit),
    )  # fmt: skip
    return Row(unfit=Unfit(key, limit, fits))


def _recorded(key: Key, sweep: Sweep, limit: int, peaks: Peaks) -> Point | None:
    """The point; None where the batch does not fit."""
    name = f"{key.workload}-b{key.batch}-w{key.workers}"
    folder = sweep.folder / "runs" / name
    steps = 3 * sweep.steps + _ALSO
    line = command(key, "--steps", str(steps), *_options(sweep, limit))
    errors = sweep.folder / f"{name}.log"
    request = RecordRequest(line, folder, sweep.steps, sweep.steps, overwrite=True)
    done = launch(request, os.environ, lambda process: _logged(process, errors))
    if done.exit_code:
        if _did_not_fit(done.exit_code, errors):
            errors.unlink()
            rmtree(folder, ignore_errors=True)
            return None
        raise BenchError(f"{key} ended with exit code {done.exit_code}; {errors} says why")
    point = measured(key, folder, peaks.device())
    errors.unlink()
    if not sweep.keep_runs:
        rmtree(folder)
    return point


def _logged(process: Process, log: Path) -> int:
    code = run(replace(process, log=log))
    return 1 if code is None else code


def _tried(key: Key, sweep: Sweep, limit: int) -> bool:
    """Whether a few steps of the batch fit."""
    line = command(key, "--steps", "3", *_options(sweep, limit))
    log = sweep.folder / f"{key.workload}-b{key.batch}-w{key.workers}.try.log"
    code = run(Process(line, log=log))
    fitted, lacked = code == 0, _did_not_fit(code or 0, log)
    if not fitted and not lacked:
        raise BenchError(f"{key} ended with exit code {code}; {log} says why")
    log.unlink()
    return fitted


def _did_not_fit(code: int, log: Path) -> bool:
    """By its own word, or killed; torchrun has an exit code of its own and tells its workers'."""
    if code == DOES_NOT_FIT or code in _KILLED:
        return True
    text = log.read_text(errors="replace") if log.exists() else ""
    return any(f"exitcode  : {number}" in text for number in (DOES_NOT_FIT, -9))


def _options(sweep: Sweep, limit: int) -> tuple[str, ...]:
    given = ("--threads", str(sweep.threads), "--memory-limit", str(limit))
    return (*given, "--data", str(sweep.data)) if sweep.data else given


def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "not installed"
