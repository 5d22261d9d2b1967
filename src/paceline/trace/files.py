"""The traces that a run keeps: those of its recording, or those that it was imported from."""

from pathlib import Path
from typing import Final

from paceline.errors import TraceError
from paceline.record import sidecar
from paceline.trace.importing import RAW
from paceline.trace.readers import Format, format_of, read_all
from paceline.trace.readers.source import Source, sources
from paceline.trace.runs import read_run
from paceline.trace.trace import Trace

_RECORDED: Final = "rank-*.trace.json"
_DETAILED: Final = "rank-*.detail.json"


def traces_of(run: Path) -> tuple[Trace, ...]:
    """Every rank's trace as it was recorded, with the modules that a recording knows."""
    if any(run.glob(_RECORDED)):
        return tuple(read_run(run)[0])
    return tuple(read_all(_imported(run)))


def detail_files(run: Path) -> tuple[Source, ...]:
    """Traces that tell shapes: a recording's detail steps, or what was imported."""
    detailed = sorted(run.glob(_DETAILED))
    return tuple(Source(path) for path in detailed) or _imported(run)


def _imported(run: Path) -> tuple[Source, ...]:
    raw = run / RAW
    if not raw.is_dir():
        raise TraceError(
            f"{run} keeps no trace files (no {sidecar.trace_name(0)}, no {RAW}/). Give a folder "
            "that `paceline record` or `paceline import` made"
        )
    found = sources([raw])
    return tuple(source for source in found if format_of(source) is Format.CHROME)
