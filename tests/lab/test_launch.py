"""What each worker is started with."""

from paceline.cluster import Cluster, Device, Host, Link
from paceline.lab import WorkerCommand, plan
from paceline.lab.launch import starts

CLUSTER = Cluster(
    (Host("a", Device("core"), devices=2), Host("b", Device("core"), cpus=0.5)),
    Link.both_ways(1e6),
)
LAYOUT = plan(CLUSTER, "test")


def test_a_plain_command_becomes_one_process_a_worker_with_its_rank() -> None:
    started = starts(LAYOUT, WorkerCommand(("python", "train.py")))
    assert [s.environment["RANK"] for s in started] == ["0", "1", "2"]
    assert [s.environment["LOCAL_RANK"] for s in started] == ["0", "1", "0"]
    assert {s.environment["WORLD_SIZE"] for s in started} == {"3"}
    assert [s.cpus for s in started] == [0, 0, 0.5]


def test_torchrun_becomes_one_agent_a_host_and_keeps_its_own_arguments() -> None:
    first, second = starts(LAYOUT, WorkerCommand(("torchrun", "train.py", "--epochs", "3")))
    assert first.command[-3:] == ("train.py", "--epochs", "3")
    assert first.command[5:7] == ("--nproc-per-node", "2")
    assert second.command[3:5] == ("--node-rank", "1")


def test_torchrun_started_as_a_module_is_torchrun() -> None:
    module = ("python", "-m", "torch.distributed.run")
    first, _ = starts(LAYOUT, WorkerCommand((*module, "train.py")))
    assert first.command[:4] == (*module, "--nnodes")
    assert first.command[-1] == "train.py"


def test_gloo_is_given_its_interface_and_the_rendezvous_fix() -> None:
    given = starts(LAYOUT, WorkerCommand(("python",)))[0].environment
    assert given["GLOO_SOCKET_IFNAME"] == "eth0"
    assert given["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    assert given["MASTER_ADDR"] == "10.77.0.1"


def test_a_jobs_own_environment_wins() -> None:
    job = WorkerCommand(("python",), environment={"OMP_NUM_THREADS": "4"})
    assert starts(LAYOUT, job)[0].environment["OMP_NUM_THREADS"] == "4"
