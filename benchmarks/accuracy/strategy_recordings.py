"""Recordings of plain jobs, and what is predicted from them of every plan in every setting.

A job is recorded once, with two workers at 1 Gbit/s, or on one host. Kept in a folder of
`benchmarks/results`, one for each set of rows, are every op of its typical step, and how long its
own operators take in other variants; as compiled, which takes minutes to measure, where a plan asks
for it. A calibration of the same hour lies beside them.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.accuracy import calibrated
from benchmarks.accuracy.cells import DEVICE, FIRST, cluster
from benchmarks.accuracy.settings import STEPS, Setting, record
from benchmarks.accuracy.strategy_plans import PLACES, Cell, Wanted
from benchmarks.measure import RESULTS
from paceline.cluster import Cluster, Host
from paceline.graph import Graph, load_graph, save_graph
from paceline.graph.condense import Grain, condense
from paceline.graph.variants import Ratio
from paceline.measure import Calibration
from paceline.measure.recorded_calls import recorded_calls
from paceline.measure.torch_compiled import compiled_ratios
from paceline.measure.torch_ratios import job_ratios
from paceline.predict import Prediction, Question, predict
from paceline.record.launch import RecordRequest, launch
from paceline.strategies.torch_circulant_times import LAYER_CHANGES
from paceline.trace.runs import open_run

Look = Callable[[Path], None]
"""What looks at a recording's folder before it goes."""


@cache
def predicted(cell: Cell, plan: Wanted) -> Prediction:
    graph, made = recorded(cell, compiled="compiled" in plan)
    question = Question(machine=calibrated.machine(made), calibration=made)
    if not cell.mbit:
        asked = Question(calibration=made)  # two workers have a core each, and no link of the lab
        return predict(graph, plan, _one_host(cell.workers, made) if plan else None, asked)
    moved = (f"workers(count={cell.workers})",) if cell.workers != PLACES[0][0] else ()
    where = made.applied(cluster(cell.workers, cell.mbit))
    return predict(graph, [*moved, *plan], where, question)


def _one_host(workers: int, made: Calibration) -> Cluster:
    """Workers that reach each other as two of the calibration do."""
    fabric = made.link()
    return made.applied(Cluster((Host("here", DEVICE, workers, fabric),), fabric))


def recorded(cell: Cell, *, compiled: bool) -> tuple[Graph, Calibration]:
    """Every op of the plain job's typical step, and this machine with the job's own operators in
    other variants; recorded and measured where none is kept."""
    setting, folder = _setting(cell), RESULTS / cell.kept
    graph, ratios = folder / _name(cell), folder / f"{_name(cell)}-ratios.json"
    if not ratios.exists():
        folder.mkdir(parents=True, exist_ok=True)
        make = record if cell.mbit else _on_one_host
        made, _ = make(setting, Grain.OP, lambda folder: _keep(ratios, _variants(folder)))
        save_graph(made, graph)
    known = _load(ratios)
    if compiled:
        known += _compiled(cell)
    return load_graph(graph), replace(calibrated.kept_in(folder / "calibration.json"), ratios=known)


def forget(rows: str) -> None:
    """Recordings and calibration of a set of rows: the next prediction makes them anew."""
    shutil.rmtree(RESULTS / rows, ignore_errors=True)
    predicted.cache_clear()


def _setting(cell: Cell) -> Setting:
    place = PLACES[0] if cell.mbit else (cell.workers, cell.mbit)
    return Setting(cell.job.model, cell.job.parallel, *place)


def _name(cell: Cell) -> str:
    return cell.job.key if cell.mbit else f"{cell.job.key}-one-host"


def _variants(folder: Path) -> Sequence[Ratio]:
    return job_ratios(recorded_calls(folder), more=LAYER_CHANGES)


def _compiled(cell: Cell) -> tuple[Ratio, ...]:
    """Of operators as they are compiled together, measured in another recording of the job."""
    ratios = RESULTS / cell.kept / f"{_name(cell)}-compiled.json"
    if not ratios.exists():

        def seen(folder: Path) -> None:
            _keep(ratios, tuple(compiled_ratios(recorded_calls(folder))))

        _on_one_host(_setting(cell), Grain.OP, seen)
    return _load(ratios)


def _on_one_host(setting: Setting, grain: Grain, seen: Look) -> tuple[Graph, None]:
    """Recorded with all workers on this machine, and no links between them."""
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", str(setting.workers))
    script = setting.command(setting.size)[len(FIRST) + 1 :]
    with tempfile.TemporaryDirectory() as scratch:
        command = (*FIRST, sys.executable, *torchrun, *script)
        launch(RecordRequest(command, Path(scratch) / "run", STEPS, setting.size.plain), os.environ)
        seen(Path(scratch) / "run")
        return condense(open_run(Path(scratch) / "run"), grain), None


def _keep(place: Path, ratios: Sequence[Ratio]) -> None:
    place.write_text(json.dumps(msgspec.to_builtins(ratios)) + "\n")


def _load(place: Path) -> tuple[Ratio, ...]:
    return msgspec.convert(json.loads(place.read_text()), tuple[Ratio, ...])
