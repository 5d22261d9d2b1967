"""The loop on hosts that share no folder: who leads, how runs come together, who is missed."""

import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.lab import Lab
from paceline.launch import Process
from paceline.trial import Ending, Ran, Watching
from paceline.tune import TuneError
from paceline.tune.hosts import Followed, Meeting, follow, gathered, meeting_of

TRAIN = Path(__file__).parents[2] / "examples" / "train.py"
COMMAND = ("torchrun", "--nnodes", "2", "train.py")


@pytest.mark.parametrize(
    ("command", "environment", "found"),
    [
        ("torchrun --nproc-per-node 2 train.py --nnodes 3", {}, None),
        ("torchrun --nnodes 1 train.py", {}, None),
        ("torchrun --nnodes=2 --node_rank=1 --master-addr=a --master-port=77 train.py", {},
         Meeting(2, "a", 78, 1)),
        ("torchrun --nnodes 1:4 --rdzv-endpoint b:100 train.py", {}, Meeting(4, "b", 101)),
        ("accelerate launch --num_machines 2 --machine_rank 0 --main_process_ip c train.py", {},
         Meeting(2, "c", 29501, 0)),
        ("deepspeed --num_nodes 2 --no_ssh --node_rank 1 --master_addr e train.py", {},
         Meeting(2, "e", 29501, 1)),
        ("deepspeed --num_nodes 1 --num_gpus 4 train.py", {}, None),
        ("python train.py", {"SLURM_NTASKS": "8", "SLURM_PROCID": "3", "MASTER_ADDR": "d"},
         Meeting(8, "d", 29501, 3)),
    ],
)  # fmt: skip
def test_a_launchers_command_tells_where_its_hosts_meet(
    command: str, environment: Mapping[str, str], found: Meeting | None
) -> None:
    assert meeting_of(command.split(), environment) == found


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("torchrun --nnodes 2 train.py", "does not say where they meet"),
        ("deepspeed --num_nodes 2 train.py", "on each host"),
        ("torchrun --nnodes two train.py", "a number of hosts of 'two'"),
        ("torchrun --nnodes 2 --rdzv-endpoint a:b train.py", "needed is HOST:PORT"),
    ],
)
def test_a_command_that_does_not_tell_is_asked_for_it(command: str, said: str) -> None:
    with pytest.raises(TuneError, match=said):
        meeting_of(command.split(), {})


def test_without_numbers_the_host_leads_that_the_address_belongs_to() -> None:
    assert Meeting(2, "127.0.0.1", 1).leads
    assert not Meeting(2, "192.0.2.1", 1).leads  # of the range that documents use


@pytest.fixture
def meeting() -> Meeting:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return Meeting(2, "127.0.0.1", free.getsockname()[1], 0, wait_s=20.0)


def following(
    meeting: Meeting, folder: Path, place: Callable[[Process, Watching], Ran]
) -> "Future[Followed]":
    pool = ThreadPoolExecutor(1)
    found = pool.submit(follow, replace(meeting, number=1), COMMAND, folder, {}, place)
    pool.shutdown(wait=False)
    return found


def writes(name: str, code: int = 0) -> Callable[[Process, Watching], Ran]:
    """A run whose rank writes one file and then goes on until it is told that it is enough."""

    def place(process: Process, watching: Watching) -> Ran:
        assert process.environment is not None
        folder = Path(json.loads(process.environment["PACELINE_TRIAL"])["folder"])
        (folder / name).write_text(process.environment["PACELINE_TRIAL"] + "\n")
        while not code and not watching.enough() and not watching.hangs():
            pass
        return Ran(Ending.ITSELF if code else Ending.ENOUGH, code, "it broke" if code else "")

    return place


def run_of(folder: Path) -> Process:
    settings = json.dumps({"folder": str(folder / "trial-1")})
    (folder / "trial-1").mkdir(parents=True)
    log = folder / "trial-1" / "job.log"
    return Process(COMMAND, {**os.environ, "PACELINE_TRIAL": settings}, log=log)


def both(folder: Path) -> Watching:
    """Enough when the files of both hosts' ranks are here."""
    return Watching(lambda: len(list(folder.rglob("*.jsonl"))) == 2, lambda: False, 60.0)


def test_what_ranks_of_other_hosts_write_comes_to_the_one_that_leads(
    meeting: Meeting, tmp_path: Path
) -> None:
    lead, other = tmp_path / "lead", tmp_path / "other"
    done = following(meeting, other, writes("rank-1.trial.jsonl"))
    with gathered(meeting, COMMAND, print) as hosts:
        place = hosts.place(writes("rank-0.trial.jsonl"), lead)
        ran = place(run_of(lead), both(lead))
        plan = tmp_path / "plan.json"
        plan.write_text("{}")
        hosts.tell("keep the plan", plan)
    assert ran == Ran(Ending.ENOUGH)
    theirs = json.loads((lead / "trial-1" / "rank-1.trial.jsonl").read_text())
    assert theirs["folder"] == str(other / "trial-1"), "it wrote to its own folder"
    assert done.result(20) == Followed("keep the plan", other / "plan.json")


def test_a_part_that_fails_on_another_host_says_which_and_why(
    meeting: Meeting, tmp_path: Path
) -> None:
    done = following(meeting, tmp_path / "other", writes("rank-1.trial.jsonl", code=3))
    with gathered(meeting, COMMAND, print) as hosts:
        place = hosts.place(writes("rank-0.trial.jsonl", code=1), tmp_path / "lead")
        ran = place(run_of(tmp_path / "lead"), both(tmp_path / "lead"))
        hosts.tell("keep what you have", None)
    assert (ran.exit_code, done.result(20).plan) == (3, None)
    assert "(number 1): it broke" in ran.said


def test_a_host_that_never_starts_is_named(meeting: Meeting) -> None:
    with (
        pytest.raises(TuneError, match=r"1 of 2 hosts came within 0 s.*host number 1 did not"),
        gathered(replace(meeting, wait_s=0.05), COMMAND, print),
    ):
        pass


def test_a_leader_that_never_starts_is_named(meeting: Meeting, tmp_path: Path) -> None:
    alone = replace(meeting, number=1, wait_s=0.05)
    with pytest.raises(TuneError, match=r"no leading host answered at 127\.0\.0\.1"):
        follow(alone, COMMAND, tmp_path, {}, writes("rank-1"))


def test_a_host_that_dies_is_named_and_the_run_ended(meeting: Meeting, tmp_path: Path) -> None:
    def dies(process: Process, watching: Watching) -> Ran:
        raise KeyboardInterrupt

    done = following(meeting, tmp_path / "other", dies)
    with gathered(meeting, COMMAND, print) as hosts:
        place = hosts.place(writes("rank-0.trial.jsonl"), tmp_path / "lead")
        with pytest.raises(TuneError, match=r"\(number 1\) was lost"):
            place(run_of(tmp_path / "lead"), both(tmp_path / "lead"))
    assert isinstance(done.exception(20), KeyboardInterrupt)


def test_a_host_with_a_number_that_is_taken_is_refused_and_told(
    meeting: Meeting, tmp_path: Path
) -> None:
    pool = ThreadPoolExecutor(1)
    done = pool.submit(follow, meeting, COMMAND, tmp_path, {}, writes("rank-1"))
    pool.shutdown(wait=False)
    with (
        pytest.raises(TuneError, match="number 0 is taken"),
        gathered(meeting, COMMAND, print),
    ):
        pass
    assert isinstance(done.exception(20), TuneError)


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.net
@pytest.mark.needs("torch", "root", "namespaces", "iproute2")
def test_two_hosts_with_a_launcher_and_a_folder_each_come_to_one_verdict(tmp_path: Path) -> None:
    """In the lab: one launcher per namespace, one rank each, nothing shared but the network."""
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(2))
    training = f"{TRAIN} --model small --parallel ddp --steps 100000 --bucket-mb 0.3"
    script = (
        f"export PACELINE_SECRET=lab; exec {sys.executable} -m paceline tune "
        f"-o {tmp_path}/host-$GROUP_RANK --allow lossy "
        f"--only fp16 --steps 18 --json -- {sys.executable} -m torch.distributed.run --nnodes 2 "
        "--node-rank $GROUP_RANK --nproc-per-node 1 --master-addr $MASTER_ADDR "
        f"--master-port $MASTER_PORT {training}"
    )
    with Lab(Cluster(hosts, Link.both_ways(12.5e6)), f"hosts-{os.getpid()}") as lab:
        done = lab.run(["sh", "-c", script], timeout_s=110, logs=tmp_path / "logs")
    texts = (done.text(n) for n in (0, 1))
    lead, other = (json.loads(text[text.index("{\n") :]) for text in texts)
    assert lead["recorded"]["workers"] == 2
    assert [trial["plan"] for trial in lead["trials"]] == [["fp16"]]
    assert lead["trials"][0]["gain"]["rounds"] >= 3
    assert other["decision"] == lead["decision"]
    kept = [(tmp_path / f"host-{n}" / "plan.json").exists() for n in (0, 1)]
    assert kept == [lead["plan"] is not None] * 2
    assert not (tmp_path / "host-1" / "outcome.json").exists(), "one host says the verdict"
