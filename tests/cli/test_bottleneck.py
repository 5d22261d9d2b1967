"""`paceline bottleneck`: the paper's scaling factors, and what it says of jobs that do not talk."""

import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from paceline.cli import main
from paceline.graph import (
    Collective,
    DType,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Phase,
    save_graph,
)
from paceline.graph.synthetic import TrainingJob, training

SHARED = Path(os.environ.get("PACELINE_SHARED", Path(__file__).parents[3] / "shared"))
DATA = SHARED / "data" / "netai"
WORKERS, BATCH_NS = 64, 128_000_000  # 32 images at the 250 a second of one V100
WAITED_NS, GATHERED = 5_000_000, 64 * 2**20  # when gradients are sent off
PUBLISHED = {"100Gbps": 0.995, "40Gbps": 0.994, "25Gbps": 0.910, "10Gbps": 0.540, "1Gbps": 0.076}


def gradients() -> list[tuple[int, int]]:
    """(nanoseconds of backward, bytes) of each parameter, in the order they come."""
    lines = (DATA / "resnet50.bk.log").read_text().splitlines()[3:]
    return [(round(float(us) * 1000), int(size)) for us, size in (r.split(",") for r in lines if r)]


def resnet() -> Graph:
    """One of the 64 workers, all alike, with its queue of all-reduces."""
    b, rows = GraphBuilder(facts=Facts(world_size=WORKERS)), gradients()
    gpu, queue = b.lane(name="stream"), b.lane(name="all-reduce", kind=LaneKind.COMM_THREAD)
    group, waited, gathered = b.group("data", range(WORKERS)), 0, 0
    b.op("forward", gpu, BATCH_NS - sum(took for took, _ in rows), phase=Phase.FORWARD)
    for i, (took, size) in enumerate(rows):
        op = b.op(f"backward {i}", gpu, took, phase=Phase.BACKWARD, dtype=DType.FLOAT32)
        waited, gathered = waited + took, gathered + size
        if waited >= WAITED_NS or gathered >= GATHERED or i == len(rows) - 1:
            b.op(
                "all-reduce", queue, -1, after=[op], kind=OpKind.COLLECTIVE,
                collective=Collective.ALL_REDUCE, size_bytes=gathered, group=group,
            )  # fmt: skip
            waited = gathered = 0
    return b.build()


@pytest.mark.skipif(not DATA.exists(), reason=f"no data in {DATA}")
def test_the_published_scaling_factors_come_out_to_three_decimals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(save_graph(resnet(), tmp_path / "resnet"))
    rates = [part for rate in PUBLISHED for part in ("--rate", rate)]
    additions = tmp_path / "additions.csv"
    table = np.loadtxt(DATA / "cuda_vec_add.log", delimiter=",")
    additions.write_text("".join(f"{size},{seconds}\n" for size, seconds in table.tolist()))
    assert main(["bottleneck", run, "--json", "--additions", str(additions), *rates]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [round(row["scaling_factor"], 3) for row in told["rates"]] == [*PUBLISHED.values()]
    assert told["recorded"] is None
    assert 25e9 < told["enough_bits_per_s"] < 40e9
    slowest = told["rates"][-1]
    assert slowest["compression"] == pytest.approx(told["enough_bits_per_s"] / 1e9)


def test_faster_links_never_lower_the_factor_and_enough_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(save_graph(training(TrainingJob(workers=4)), tmp_path / "job"))
    assert main(["bottleneck", run, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    factors = [row["scaling_factor"] for row in told["rates"]]
    assert all(slow <= fast for slow, fast in pairwise(factors))
    assert factors[-1] <= told["best"] <= 1
    enough = str(told["enough_bits_per_s"])
    assert main(["bottleneck", run, "--json", "--rate", f"{enough}bps"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rates"]
    assert row["scaling_factor"] == pytest.approx(told["best"] * 0.99, rel=1e-3)
    assert row["compression"] == 1
    assert main(["bottleneck", run]) == 0
    assert "without communication, on 4 workers" in capsys.readouterr().out


def test_a_job_that_does_not_talk_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    b = GraphBuilder()
    b.op("alone", b.lane(), 10)
    run = str(save_graph(b.build(), tmp_path / "alone"))
    assert main(["bottleneck", run]) == 1
    assert "no op of this job communicates" in capsys.readouterr().err


def test_additions_that_are_no_table_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(save_graph(training(TrainingJob()), tmp_path / "job"))
    (tmp_path / "table").write_text("1 2 3")
    assert main(["bottleneck", run, "--additions", str(tmp_path / "table")]) == 1
    assert "for bytes and seconds" in capsys.readouterr().err
