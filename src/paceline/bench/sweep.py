"""Measures workloads at several batch sizes: records each, and keeps each row as it comes."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Final

from paceline.bench.asked import Sweep
from paceline.bench.catalogue import missing, module_of, named
from paceline.bench.errors import BenchError
from paceline.bench.found import is_settled, report_of
from paceline.bench.kept import KeptRow, keep, load_peaks, rows, save
from paceline.bench.largest import largest_fitting
from paceline.bench.lessons import fits
from paceline.bench.measured import measured
from paceline.bench.memory_limit import DOES_NOT_FIT, says_out_of_memory
from paceline.bench.own import filled
from paceline.bench.point import Key, Point, Report, Unfit
from paceline.errors import PacelineError
from paceline.launch import Process, run
from paceline.machine import free_bytes, this_machine
from paceline.measure.peaks import Peaks
from paceline.record.launch import RecordRequest, launch

_ALSO: Final = 14  # steps besides plain and recorded ones: warm-up, detail, and between
_KILLED: Final = (-9, 137)  # by the kernel, for want of memory
_SPARED: Final = 0.8  # of the memory that is free: so much may be taken

Told = Callable[[str], None]


def swept(sweep: Sweep, told: Told) -> Report:
    """Measure what is not kept yet; the report of all that was asked for."""
    wanted = sweep.keys()
    sweep.folder.mkdir(parents=True, exist_ok=True)
    peaks, failed = peaks_in(sweep.folder, sweep.threads), dict[str, str]()
    for key in wanted:
        if is_settled(key, rows(sweep.folder, sweep.setting), _limit(sweep, key)):
            continue
        if sweep.over:
            failed[str(key)] = "the time was spent; run it again, which goes on from here"
            continue
        told(str(key))
        try:
            row = _row(key, sweep, peaks)
        except PacelineError as error:
            failed[str(key)] = str(error)
            continue
        keep(sweep.folder, row)
        told(_said(row))
    report = report_of(sweep, wanted, peaks, failed)
    save(report, sweep.folder)
    return report


def _said(row: KeptRow) -> str:
    if row.point is not None:
        return f"{row.point.key}: {row.point.throughput:,.0f} samples/s"
    return f"{row.unfit.key}: {fits(row.unfit)}" if row.unfit is not None else ""


def peaks_in(folder: Path, threads: int) -> Peaks:
    """The machine's peaks, measured once for a folder and a number of threads."""
    kept = load_peaks(folder)
    if kept is not None and (kept.machine, kept.threads) == (this_machine(), threads):
        return kept
    from paceline.measure.torch_peaks import measured_peaks

    found = measured_peaks(threads)
    save(found, folder)
    return found


def command(key: Key, *options: str) -> tuple[str, ...]:
    """How a workload is started: alone, or by torchrun."""
    torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node", str(key.workers), "-m")
    many = torchrun if key.workers > 1 else ()
    module = module_of(key.workload)
    return (sys.executable, "-m", *many, module, "--batch", str(key.batch), *options)


def _limit(sweep: Sweep, key: Key) -> int:
    """Bytes that a worker's training is given; 0 of a job that is none of the suite: no limit."""
    if sweep.own:
        return 0
    return sweep.limit_bytes or round(_SPARED * free_bytes() / key.workers)


def _row(key: Key, sweep: Sweep, peaks: Peaks) -> KeptRow:
    if not sweep.own and (lacking := missing(named(key.workload))):
        raise BenchError(f"{key.workload} needs {', '.join(lacking)}: pip install paceline[bench]")
    limit = _limit(sweep, key)
    point = _recorded(key, sweep, limit, peaks)
    if point is not None:
        return KeptRow(sweep.setting, point=point)
    smaller = [
        row.point.key.batch
        for row in rows(sweep.folder, sweep.setting)
        if row.point and (row.point.key.workload, row.point.key.workers)
        == (key.workload, key.workers) and row.point.key.batch < key.batch
    ]  # fmt: skip
    found = largest_fitting(
        max(smaller, default=0), key.batch,
        lambda batch: _tried(Key(key.workload, batch, key.workers), sweep, limit),
    )  # fmt: skip
    return KeptRow(sweep.setting, unfit=Unfit(key, limit, found))


def _recorded(key: Key, sweep: Sweep, limit: int, peaks: Peaks) -> Point | None:
    """The point; None where the batch does not fit."""
    name = f"{key.workload}-b{key.batch}-w{key.workers}"
    folder = sweep.folder / "runs" / name
    line = _line(key, sweep, 3 * sweep.steps + _ALSO, limit)
    errors = sweep.folder / f"{name}.log"
    request = RecordRequest(line, folder, sweep.steps, sweep.steps, overwrite=True)
    done = launch(request, _environment(sweep), lambda process: _logged(process, errors))
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
    line = _line(key, sweep, 3, limit)
    log = sweep.folder / f"{key.workload}-b{key.batch}-w{key.workers}.try.log"
    code = run(Process(line, _environment(sweep), log=log))
    fitted, lacked = code == 0, _did_not_fit(code or 0, log)
    if not fitted and not lacked:
        raise BenchError(f"{key} ended with exit code {code}; {log} says why")
    log.unlink()
    return fitted


def _did_not_fit(code: int, log: Path) -> bool:
    """By its own word, or killed; torchrun has an exit code of its own and tells its workers'. A
    job that is none of the suite says it in torch's words."""
    if code == DOES_NOT_FIT or code in _KILLED:
        return True
    text = log.read_text(errors="replace") if code and log.exists() else ""
    ended = any(f"exitcode  : {number}" in text for number in (DOES_NOT_FIT, -9))
    return ended or says_out_of_memory(text)


def _line(key: Key, sweep: Sweep, steps: int, limit: int) -> tuple[str, ...]:
    if sweep.own:
        return filled(sweep.own, key, steps)
    given = ("--steps", str(steps), "--threads", str(sweep.threads), "--memory-limit", str(limit))
    return command(key, *given, *(("--data", str(sweep.data)) if sweep.data else ()))


def _environment(sweep: Sweep) -> dict[str, str]:
    """A job that is none of the suite takes its number of threads from here."""
    own = {"OMP_NUM_THREADS": str(sweep.threads)} if sweep.own else {}
    return {**os.environ, **own}
