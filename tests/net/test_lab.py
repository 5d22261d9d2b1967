"""Labs that really stand: rates, loss, quotas, names in use, workers that die or hang."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.cluster import Cluster, Device, Host, LeafSpine, Link, Transport, dump
from paceline.lab import Lab, LabError, WorkerError, standing, tear_down
from paceline.lab.access import Access
from paceline.lab.teardown import namespaces

pytestmark = [
    pytest.mark.net,
    pytest.mark.needs("root", "namespaces", "iproute2"),
]

NAME = f"test-{os.getpid()}"

TRANSFER = """
import os, socket, time
here, size = int(os.environ["RANK"]), {size}
if here == 0:
    with socket.create_server(("", 5001)) as server:
        link, _ = server.accept()
        got = began = 0
        while chunk := link.recv(1 << 16):
            began = began or time.perf_counter()
            got += len(chunk)
        print(got / (time.perf_counter() - began))
elif here == 1:
    while True:
        try:
            link = socket.create_connection((os.environ["MASTER_ADDR"], 5001))
            break
        except ConnectionRefusedError:
            pass
    link.sendall(bytes(size))
    link.close()
"""


def cluster(link: Link, hosts: int = 2, cpus: float = 0.0) -> Cluster:
    return Cluster(tuple(Host(f"h{i}", Device("core"), cpus=cpus) for i in range(hosts)), link)


def here() -> list[str]:
    """Namespaces of this test's labs."""
    return [n for n in namespaces(Access()) if n.split(".")[1].startswith(NAME)]


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    left = here()
    for name in {n.split(".")[1] for n in left}:
        tear_down(name)
    assert not left


def rate(lab: Lab, size: int, logs: Path) -> float:
    """Bytes a second that worker 0 receives from worker 1."""
    command = [sys.executable, "-c", TRANSFER.format(size=size)]
    return float(lab.run(command, timeout_s=60, logs=logs).text(0))


@pytest.mark.parametrize(("up", "down"), [(10e6, 2.5e6), (2.5e6, 10e6)])
def test_the_slower_direction_sets_the_rate(up: float, down: float, tmp_path: Path) -> None:
    with Lab(cluster(Link(up, down)), NAME) as lab:
        reached = rate(lab, 2_500_000, tmp_path)
    # A core that is busy elsewhere may slow it; only a queue that does not shape makes it faster.
    assert 0.6 * 2.5e6 < reached < 1.1 * 2.5e6


@pytest.mark.needs("nft")
def test_random_loss_drops_packets_and_tcp_still_delivers(tmp_path: Path) -> None:
    with Lab(cluster(Link(12.5e6, 12.5e6, loss=0.05)), NAME) as lab:
        assert rate(lab, 1_000_000, tmp_path) > 0
        rules = subprocess.run(
            ["ip", "netns", "exec", f"paceline.{NAME}.h0", "nft", "list", "ruleset"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    dropped = int(rules.split("counter packets ")[1].split()[0])
    assert dropped > 0


def test_traffic_crosses_a_leaf_spine(tmp_path: Path) -> None:
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(4))
    spread = LeafSpine(hosts_per_leaf=1, spines=2)
    with Lab(Cluster(hosts, Link.both_ways(12.5e6), spread), NAME) as lab:
        assert rate(lab, 1_000_000, tmp_path) > 0


@pytest.mark.needs("quotas")
def test_a_quota_slows_its_worker(tmp_path: Path) -> None:
    work = "import time; sum(range(4_000_000)); print(time.process_time(), time.perf_counter())"
    script = f"import time; began = time.perf_counter(); {work}; print(began)"
    with Lab(cluster(Link.both_ways(1e6), hosts=1, cpus=0.2), NAME) as lab:
        said = lab.run([sys.executable, "-c", script], logs=tmp_path).text(0).split()
    cpu, end, began = map(float, said)
    assert end - began > 2 * cpu / 1.2


def test_workers_find_each_other_over_gloo(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = (
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "x = torch.ones(1000); dist.all_reduce(x); print(int(x[0]), flush=True)\n"
        "dist.barrier()\n"
        "os._exit(0)  # an orderly end now and then meets an abort in gloo's own threads\n"
    )
    with Lab(cluster(Link.both_ways(125e6)), NAME) as lab:
        finished = lab.run([sys.executable, "-c", script], timeout_s=120, logs=tmp_path)
    assert [finished.text(r).split()[-1] for r in range(2)] == ["2", "2"]


def test_what_signals_did_before_they_do_after_the_lab() -> None:
    told = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in told]
    with Lab(cluster(Link.both_ways(1e6)), NAME):
        assert [signal.getsignal(number) for number in told] != before
    assert [signal.getsignal(number) for number in told] == before


def test_a_name_in_use_is_refused_and_the_standing_lab_stays() -> None:
    with Lab(cluster(Link.both_ways(1e6)), NAME):
        with pytest.raises(LabError, match="in use"):
            Lab(cluster(Link.both_ways(1e6)), NAME).up()
        assert len(here()) == 3


def test_a_worker_that_dies_ends_the_others_and_shows_its_log(tmp_path: Path) -> None:
    script = 'test $RANK = 0 && sleep 100; echo "no data here"; exit 3'
    with (
        Lab(cluster(Link.both_ways(1e6)), NAME) as lab,
        pytest.raises(WorkerError, match=r"worker 1 ended with 3(.|\n)*no data here"),
    ):
        lab.run(["sh", "-c", script], logs=tmp_path)


def test_a_worker_that_hangs_is_ended_when_time_is_up(tmp_path: Path) -> None:
    script = "echo waiting; exec sleep 100"
    with (
        Lab(cluster(Link.both_ways(1e6)), NAME) as lab,
        pytest.raises(WorkerError, match=r"did not end within 0.5 s(.|\n)*waiting"),
    ):
        lab.run(["sh", "-c", script], timeout_s=0.5, logs=tmp_path)


def test_a_killed_lab_leaves_no_process_and_goes_by_name() -> None:
    maker = (
        "import sys\n"
        "from paceline.cluster import Cluster, Device, Host, Link\n"
        "from paceline.lab import Lab\n"
        "hosts = tuple(Host(f'h{i}', Device('core')) for i in range(2))\n"
        f"with Lab(Cluster(hosts, Link.both_ways(1e6)), '{NAME}') as lab:\n"
        "    command = ['sh', '-c', 'echo started; exec sleep 100']\n"
        "    lab.run(command, watch=lambda text: print(text, flush=True))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", maker], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert "started" in process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert NAME in standing()
    tear_down(NAME)
    assert NAME not in standing()
    assert here() == []


def test_after_a_kill_of_lab_run_no_worker_under_torchrun_lives_on(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    alive, described = tmp_path / "alive", tmp_path / "cluster.yaml"
    os.mkfifo(alive)
    described.write_text(dump(cluster(Link.both_ways(125e6))))
    script = tmp_path / "stays.py"
    script.write_text(
        "import signal, sys\n"
        "file = open(sys.argv[1], 'w')\n"
        "print('ready', file=file, flush=True)\n"
        "signal.pause()\n"
    )
    command = [sys.executable, "-m", "paceline", "lab", "run", "--name", NAME]
    command += ["--cluster", str(described), "--", sys.executable, "-m", "torch.distributed.run"]
    process = subprocess.Popen([*command, str(script), str(alive)])
    with alive.open() as file:
        assert [file.readline(), file.readline()] == ["ready\n", "ready\n"]
        process.kill()
        assert file.read() == ""  # to its end: until neither worker holds it open
    process.wait()
    tear_down(NAME)


def test_the_next_lab_of_that_name_clears_what_a_killed_one_left() -> None:
    maker = (
        "import os\n"
        "from paceline.cluster import Cluster, Device, Host, Link\n"
        "from paceline.lab import Lab\n"
        f"Lab(Cluster((Host('h0', Device('core')),), Link.both_ways(1e6)), '{NAME}').__enter__()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", maker], check=False)
    assert here()
    with Lab(cluster(Link.both_ways(1e6)), NAME):
        assert len(here()) == 3


def test_a_refused_congestion_control_leaves_nothing_and_says_what_to_do() -> None:
    made = replace(cluster(Link.both_ways(1e6)), transport=Transport(congestion="nonesuch"))
    with pytest.raises(LabError, match="tcp_allowed_congestion_control"):
        Lab(made, NAME).up()
    assert here() == []


def test_without_root_a_user_namespace_serves_or_the_message_says_what_is_missing() -> None:
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable]
    again = (
        "import subprocess, sys, paceline.lab; subprocess.run([sys.executable, '-V'], check=True)"
    )
    if subprocess.run([*nobody, "-c", again], capture_output=True).returncode:
        pytest.skip("another user cannot read this checkout, or start its Python")
    maker = (
        "from paceline.cluster import Cluster, Device, Host, Link\n"
        "from paceline.lab import Lab, LabError\n"
        "hosts = tuple(Host(f'h{i}', Device('core')) for i in range(2))\n"
        "try:\n"
        f"    with Lab(Cluster(hosts, Link.both_ways(1e6)), '{NAME}') as lab:\n"
        "        print(lab.run(['echo', 'inside']).text(1))\n"
        "except LabError as error:\n"
        "    print(error)\n"
    )
    shown = subprocess.run([*nobody, "-c", maker], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert "inside" in shown.stdout or "user namespaces" in shown.stdout
