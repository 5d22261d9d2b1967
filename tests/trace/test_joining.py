"""Recordings of hosts that share no folder, made one run; parts that do not belong together."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.cli import main
from paceline.cluster import Cluster, Device, Host, Link
from paceline.errors import FileError, TraceError
from paceline.lab import Lab
from paceline.record import sidecar
from paceline.record.job import job_of, keep_job
from paceline.trace.joining import join_runs
from paceline.trace.runs import open_run

pytest.importorskip("torch")
pytestmark = pytest.mark.live

TRAIN = Path(__file__).parents[2] / "examples" / "train.py"
Edit = Callable[[sidecar.Record], sidecar.Record]


def apart(run: Path, place: Path, rank: int, edit: Edit = lambda record: record) -> Path:
    """One rank of a recording as its own launcher would have left it, each record edited."""
    place.mkdir()
    job = job_of(run)
    own = msgspec.structs.replace(job, job=f"torchrun-on-host-{rank}")
    keep_job(own, place)
    for name in (sidecar.trace_name(rank), sidecar.detail_name(rank)):
        shutil.copy(run / name, place / name)
    lines = []
    for record in sidecar.read(run / sidecar.facts_name(rank)).records:
        if isinstance(record, sidecar.RecordedHost):
            name = record.job.replace(job.job, own.job)
            record = msgspec.structs.replace(record, job=name, host=f"host-{rank}")
        lines.append(sidecar.encode(edit(record)))
    (place / sidecar.facts_name(rank)).write_bytes(b"".join(lines))
    return place


def of(kind: type[sidecar.Record], **change: Any) -> Edit:
    def edit(record: sidecar.Record) -> sidecar.Record:
        return msgspec.structs.replace(record, **change) if isinstance(record, kind) else record

    return edit


def later(by_ns: int) -> Edit:
    def edit(record: sidecar.Record) -> sidecar.Record:
        if not isinstance(record, sidecar.Step):
            return record
        begin, end = record.begin_ns + by_ns, record.end_ns + by_ns
        return msgspec.structs.replace(record, begin_ns=begin, end_ns=end)

    return edit


def test_what_was_recorded_apart_is_the_run_that_was_recorded_together(
    ddp_recording: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ddp_recording.folder
    parts = [apart(run, tmp_path / f"host-{rank}", rank) for rank in (1, 0)]
    out = tmp_path / "whole"
    assert main(["join", *map(str, parts), "-o", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    whole, together = open_run(out), open_run(run)
    assert told["ranks"] == [0, 1]
    assert (whole.ops.dur_ns == together.ops.dur_ns).all()
    assert whole.meta["clocks"] == together.meta["clocks"]
    assert whole.meta["run"] == "whole"
    assert whole.facts == together.facts
    assert job_of(out).exit_code == 0


def test_parts_that_lack_a_rank_or_have_one_twice_are_refused(
    ddp_recording: Any, tmp_path: Path
) -> None:
    one, two = (apart(ddp_recording.folder, tmp_path / f"host-{rank}", rank) for rank in (0, 1))
    out = tmp_path / "whole"
    with pytest.raises(TraceError, match=r"ranks 1 of 2 are missing .*host-0: 0.*other hosts"):
        join_runs([one], out)
    with pytest.raises(TraceError, match=r"rank 0 is in .*host-0 and .*host-0"):
        join_runs([one, two, one], out)
    with pytest.raises(TraceError, match="holds no recording"):
        join_runs([one, tmp_path / "nowhere"], out)
    (two / sidecar.trace_name(1)).unlink()
    with pytest.raises(TraceError, match="rank 1 has no trace"):
        join_runs([one, two], out)
    assert not out.exists()


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (of(sidecar.RecordedHost, world_size=3), "another number of processes"),
        (of(sidecar.RecordedHost, job="torchrun-on-host-1/none/elsewhere"), "another rendezvous"),
        (of(sidecar.RecordedHost, backend="nccl"), "another communication backend"),
        (of(sidecar.Parameter, size_bytes=4), "another model"),
        (of(sidecar.Step, mode=sidecar.Mode.PLAIN), "no step was recorded on all hosts"),
        (later(3600 * 10**9), "other runs of the job"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parts_of_another_job_or_of_other_steps_are_refused(
    ddp_recording: Any, tmp_path: Path, edit: Edit, said: str
) -> None:
    one = apart(ddp_recording.folder, tmp_path / "a", 0)
    two = apart(ddp_recording.folder, tmp_path / "b", 1, edit)
    with pytest.raises(TraceError, match=said):
        join_runs([one, two], tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_folder_with_other_things_in_it_is_not_written_to(
    ddp_recording: Any, tmp_path: Path
) -> None:
    parts = [apart(ddp_recording.folder, tmp_path / f"host-{rank}", rank) for rank in (0, 1)]
    with pytest.raises(FileError, match="holds other things"):
        join_runs(parts, parts[0])


@pytest.mark.slow
@pytest.mark.net
@pytest.mark.needs("root", "namespaces", "iproute2")
def test_two_hosts_with_a_launcher_and_a_folder_each_become_one_run(tmp_path: Path) -> None:
    """In the lab: one launcher per namespace, two ranks each, nothing shared but the network."""
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(2))
    training = f"{TRAIN} --model small --parallel ddp --steps 34 --bucket-mb 0.3"
    script = (
        f"exec {sys.executable} -m paceline record -o {tmp_path}/host-$GROUP_RANK "
        f"--steps 4 --plain 2 -- {sys.executable} -m torch.distributed.run --nnodes 2 "
        "--node-rank $GROUP_RANK --nproc-per-node 2 --master-addr $MASTER_ADDR "
        f"--master-port $MASTER_PORT {training}"
    )
    with Lab(Cluster(hosts, Link.both_ways(125e6)), f"join-{os.getpid()}") as lab:
        lab.run(["sh", "-c", script], timeout_s=200, logs=tmp_path / "logs")
    graph = join_runs([tmp_path / "host-0", tmp_path / "host-1"], tmp_path / "whole")
    assert graph.ranks == (0, 1, 2, 3)
    assert graph.world_size == 4
    alone = [job_of(tmp_path / f"host-{n}").job for n in (0, 1)]
    assert alone[0] != alone[1]
    assert not [note for note in graph.meta["notes"] if "were not given" in note]
    assert main(["predict", str(tmp_path / "whole")]) == 0
