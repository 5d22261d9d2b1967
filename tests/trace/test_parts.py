"""Ranks imported one by one by workers: the same graph, and a worker that dies is survived."""

import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.errors import TraceError
from paceline.graph import Graph
from paceline.graph.law import check
from paceline.spread import OneByOne, opened
from paceline.trace.importing import Import, import_graph
from paceline.trace.parts import RankTrace, build_with
from paceline.trace.readers.source import sources

sys.path.insert(0, str(Path(__file__).parent))
from dying import Dying

CLUSTERS = [
    pytest.param("processes:2"),
    pytest.param("dask://", marks=[pytest.mark.slow, pytest.mark.needs("dask")]),
    pytest.param("ray://", marks=[pytest.mark.slow, pytest.mark.needs("ray")]),
]


@pytest.fixture(scope="module")
def files(document: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three ranks that meet twice in each of two steps; the last has seen a third step."""
    folder = tmp_path_factory.mktemp("traces")
    for rank in range(3):
        d = document(rank=rank, world_size=3)
        for step in range(3 if rank == 2 else 2):
            at = 1000 * step
            d.step(step + 1, at, 900).op("aten::mm", at, 50 + rank, Sequence_number=step)
            for number in (0, 1):
                told = {"Collective name": "allreduce", "Process Group Name": "dp",
                        "In msg nelems": 1000, "dtype": "Float"}  # fmt: skip
                start = at + 200 + 300 * number + 10 * rank
                which = 10 * step + number
                d.call("cudaLaunchKernel", start - 20, 5, correlation=which)
                d.kernel("ncclDevKernel_AllReduce_Sum_f32", start, at + 290 + 300 * number - start,
                         which, **told)  # fmt: skip
        d.save(folder / f"rank{rank}.json.gz")
    return folder


def differing(one: Graph, other: Graph) -> list[str]:
    """Columns that are not the same, and what stands beside them."""
    tables = [(getattr(one, name), getattr(other, name)) for name in ("ops", "deps", "lanes")]
    found = [
        item.name
        for mine, theirs in tables
        for item in fields(mine)
        if not np.array_equal(getattr(mine, item.name), getattr(theirs, item.name))
    ]
    beside = ("names", "groups", "devices", "works", "facts", "meta")
    return found + [name for name in beside if getattr(one, name) != getattr(other, name)]


@pytest.mark.parametrize("on", CLUSTERS)
def test_workers_make_the_graph_that_one_process_makes(on: str, files: Path) -> None:
    here, there = (import_graph([files], Import(on=where)) for where in ("", on))
    assert differing(check(there), check(here)) == []
    assert (there.spread is None) == (here.spread is None)
    assert any("steps [3] were not recorded on every rank" in n for n in there.meta["notes"])


@pytest.mark.parametrize("on", CLUSTERS)
def test_a_worker_that_dies_in_an_import_is_survived(
    on: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # for `dying`
    work = Dying("rank1.json.gz", tmp_path / "died")
    with opened(on, OneByOne(work)) as answers:
        made = build_with(answers, [RankTrace(source) for source in sources([files])])
    assert (tmp_path / "died").exists()
    assert differing(made, import_graph([files], Import())) == []


@pytest.mark.slow
def test_a_file_that_kills_each_worker_is_named(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    with (
        pytest.raises(TraceError, match=r"each of 3 workers that read .*rank1\.json\.gz died"),
        opened("processes:2", OneByOne(Dying("rank1.json.gz"))) as answers,
    ):
        build_with(answers, [RankTrace(source) for source in sources([files])])


def test_what_is_no_trace_of_a_rank_is_not_spread(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(TraceError, match="--on reads nothing else"):
        import_graph([tmp_path], Import(on="processes:2"))
