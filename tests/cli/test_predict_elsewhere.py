"""`paceline predict` on another cluster, and what it refuses."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from paceline.cli import main
from paceline.cli._question import OptionError
from paceline.cli.verify import plan_of
from paceline.cluster.files import device
from paceline.cost.achieved import achieved
from paceline.graph import (
    Axis,
    Collective,
    DepKind,
    DeviceKind,
    DType,
    Facts,
    GraphBuilder,
    LaneKind,
    OpKind,
    Parameter,
    Phase,
)
from paceline.graph.files import save_graph
from paceline.machine import this_machine
from paceline.measure import Calibration, Constant, Overlap, SharedCores, Sweep, save
from paceline.record.sidecar import RecordedHost, encode, facts_name
from paceline.strategies import Plan, strategy

CLUSTER = """
name: test
hosts: {count: 2, device: epyc-2c}
link: {rate: 100Mbps}
"""


@pytest.fixture
def places(tmp_path: Path) -> tuple[str, str]:
    """A saved recording of two workers, and a cluster file."""
    facts = Facts(world_size=2, parameters=(Parameter("w", 1_000_000),), buckets=(("w",),))
    made = GraphBuilder(facts=facts)
    group, instance = made.group("0", [0, 1], Axis.DATA), made.instance()
    for rank in (0, 1):
        main_lane = made.lane(rank, "main")
        gloo = made.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
        made.op("forward", main_lane, 2_000_000, phase=Phase.FORWARD)
        ready = made.op("backward", main_lane, 4_000_000, phase=Phase.BACKWARD, tensor="w")
        handed = made.op("call", main_lane, kind=OpKind.HOST, phase=Phase.COMMUNICATION)
        sent = made.op(
            "all_reduce", gloo, 9_000_000, after=[handed], dep=DepKind.LAUNCH,
            kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE, size_bytes=1_000_000,
            dtype=DType.FLOAT32, group=group, instance=instance,
        )  # fmt: skip
        made.link(ready, sent, DepKind.GRADIENT)
        made.op("wait", main_lane, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT)
        made.op("update", main_lane, 1_000_000, phase=Phase.UPDATE)
    save_graph(made.build(), tmp_path / "run")
    (tmp_path / "c.yaml").write_text(CLUSTER)
    return str(tmp_path / "run"), str(tmp_path / "c.yaml")


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["predict", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_faster_link_and_more_workers(
    places: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    run, cluster = places
    slow = shown(capsys, run, "--cluster", cluster)
    fast = shown(capsys, run, "--cluster", cluster, "--set", "link.rate=10Gbps")
    many = shown(capsys, run, "--cluster", cluster, "--workers", "8")
    assert fast["step_ns"] < slow["step_ns"] < many["step_ns"]
    assert many["workers"] == 8
    assert slow["low_ns"] < slow["step_ns"] < slow["high_ns"]


def test_another_device_shortens_the_work(
    places: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    run, cluster = places
    here = shown(capsys, run, "--cluster", cluster)
    there = shown(capsys, run, "--cluster", cluster, "--device", "h200")
    assert there["step_ns"] < here["step_ns"]


def test_workers_that_share_cores_are_slower(
    places: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    run, cluster = places
    apart = shown(capsys, run, "--cluster", cluster, "--workers", "4")
    shared = shown(capsys, run, "--cluster", cluster, "--workers", "4", "--cores", "2")
    assert apart["step_ns"] < shared["step_ns"]


def test_more_workers_without_a_cluster_say_what_to_give(
    places: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", places[0], "--workers", "4"]) == 1
    assert "--cluster FILE" in capsys.readouterr().err


def test_options_that_would_be_ignored_are_refused(
    places: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    run, cluster = places
    assert main(["predict", run, "--cores", "2"]) == 1
    assert "--cores needs --cluster" in capsys.readouterr().err
    assert main(["predict", run, "--cluster", cluster, "--turn-ns", "5"]) == 1
    assert "give --cores too" in capsys.readouterr().err


@pytest.mark.parametrize("scale", ["phase=backward:0.5", "kind=collective:0.1"])
def test_what_is_scaled_down_makes_the_step_shorter_on_a_cluster_too(
    places: tuple[str, str], scale: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, cluster = places
    before = shown(capsys, run, "--cluster", cluster)
    after = shown(capsys, run, "--cluster", cluster, "--scale", scale)
    by = {"phase=backward:0.5": 2_000_000, "kind=collective:0.1": 0.9 * 80_000_000}[scale]
    assert before["step_ns"] - after["step_ns"] == pytest.approx(by, rel=0.02)


def test_changes_are_written_as_strategies_too(
    places: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    run, cluster = places
    option = shown(capsys, run, "--cluster", cluster, "--workers", "4")
    assert option == shown(capsys, run, "--cluster", cluster, "--with", "workers(count=4)")
    assert main(["predict", run, "--with", "wrokers(count=4)"]) == 1
    assert "did you mean workers?" in capsys.readouterr().err


def test_what_the_lab_cannot_change_is_not_verified(
    places: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    run, cluster = places
    assert main(["verify", run, "--cluster", cluster, "--device", "h200"]) == 1
    assert "can be predicted" in capsys.readouterr().err
    assert main(["verify", run, "--cluster", cluster, "--scale", "phase=backward:0.5"]) == 1
    assert "--job" in capsys.readouterr().err
    seldom = ["--with", "local_sgd(period=4)", "--job", "torchrun train.py"]
    assert main(["verify", run, "--cluster", cluster, *seldom]) == 1
    assert "time whole periods" in capsys.readouterr().err
    assert main(["verify", run, "--cluster", cluster]) == 1
    assert "which command it was" in capsys.readouterr().err


def test_strategies_are_switched_on_in_the_job_that_verifies_them() -> None:
    fp16, workers = strategy("fp16"), strategy("workers", count=4)
    assert plan_of((workers, fp16)) == Plan((fp16,))
    assert plan_of((workers,)) is None
    with pytest.raises(OptionError, match=r"scale.* is not switched on(.|\n)*--job"):
        plan_of((strategy("scale", select="phase=backward", factor=0.5),))


def test_a_calibration_file_slows_what_overlaps(
    places: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """100 ms of work beside 80 ms of messages: at a half until the messages end, 160 + 20."""
    made = GraphBuilder()
    group, instance = made.group("0", [0, 1]), made.instance()
    for rank in (0, 1):
        host = made.device(f"host {rank}")
        main = made.lane(rank, "main", device=host)
        comm = made.lane(rank, "comm", kind=LaneKind.COMM_THREAD, device=host)
        made.op("gemm", main, 100_000_000)
        made.op(
            "all_reduce", comm, 1, kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE,
            size_bytes=1_000_000, dtype=DType.FLOAT32, group=group, instance=instance,
        )  # fmt: skip
    save_graph(made.build(), tmp_path / "overlapping")
    file = tmp_path / "calibration.json"
    save(Calibration("here", 2, 2, LINE, LINE, LINE, LINE, Overlap(2.0, 2.0)), file)
    run = str(tmp_path / "overlapping")
    alone = shown(capsys, run, "--cluster", places[1])
    slowed = shown(capsys, run, "--cluster", places[1], "--calibration", str(file))
    assert alone["step_ns"] == 100_000_000
    assert slowed["step_ns"] == pytest.approx(180_000_000, rel=0.01)


LINE = Sweep((1e6, 2e6, 4e6), (1e6, 2e6, 4e6))
SHARED = SharedCores(
    2, 4, 0.4, 0.3, Constant(9.5, 9, 10), Constant(8e6, 7e6, 9e6), None, Constant(7e4, 6e4, 8e4)
)


def test_with_cores_the_calibrated_machine_holds_and_options_of_its_own_go_before(
    places: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, cluster = places
    on_cores = [run, "--cluster", cluster, "--workers", "4", "--cores", "2"]
    save(
        Calibration("here", 2, 2, LINE, LINE, LINE, LINE, Overlap(2.0, 2.0), SHARED, "2026-01-02"),
        tmp_path / "here.json",
    )
    calibrated = [*on_cores, "--calibration", str(tmp_path / "here.json")]
    usual, found = shown(capsys, *on_cores), shown(capsys, *calibrated)
    costly = shown(capsys, *calibrated, "--cpu-ns-per-byte", "500")
    assert usual["step_ns"] < found["step_ns"] < costly["step_ns"]
    assert _unmeasured(found) == ["call_ns 150000"]
    assert len(_unmeasured(usual)) == 4
    assert "calibration: here, 2026-01-02" in found["rests_on"]


def test_a_calibration_of_another_machine_is_told(
    places: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    run, cluster = places
    recorded, kept = tmp_path / "recorded", str(tmp_path / "kept.json")
    shutil.copytree(run, recorded / "graph")
    host = RecordedHost(rank=0, world_size=2, processor="EPYC 7763", cores=2)
    (recorded / facts_name(0)).write_bytes(encode(host))
    asked = [str(recorded), "--cluster", cluster, "--calibration", kept]

    def doubts(machine: str, *more: str) -> list[str]:
        save(Calibration(machine, 2, 2, LINE, LINE, LINE, LINE, None), Path(kept))
        caplog.clear()
        found = shown(capsys, *asked, *more)
        doubted = [each for each in found["rests_on"] if "may not hold" in each]
        assert [each.endswith(doubted[0]) for each in caplog.messages] == [True] * len(doubted)
        return doubted

    assert doubts("EPYC 7763, 2 cores") == []
    assert doubts("Xeon 8259CL, 2 cores")[0].startswith("the calibration is of 'Xeon 8259CL")
    assert doubts(this_machine(), "--cores", "2") == []
    assert this_machine() in doubts("x86_64-2c", "--cores", "2")[0]


def test_options_that_say_how_another_is_meant_are_refused_without_it(
    places: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    run, cluster = places
    assert main(["predict", run, "--seed", "3"]) == 1
    assert "give --draws N too" in capsys.readouterr().err
    assert main(["predict", run, "--cluster", cluster, "--recorded-device", "a100-80"]) == 1
    assert "give --device NAME too" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [("--cores", "0"), ("--cores", "-2"), ("--turn-ns", "-1"), ("--cpu-ns-per-byte", "nan"),
     ("--bucket-mb", "nan"), ("--batch", "inf")],
)  # fmt: skip
def test_a_number_that_cannot_be_is_refused(
    places: tuple[str, str], option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, cluster = places
    with pytest.raises(SystemExit):
        main(["predict", run, "--cluster", cluster, f"{option}={value}"])
    assert f"{option}: {value!r} is not a number" in " ".join(capsys.readouterr().err.split())


def test_show_takes_what_operators_are_held_against_with_its_table_alone(
    places: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", places[0], "--recorded-device", "h100"]) == 1
    assert "give --efficiency too" in capsys.readouterr().err
    for two in (["--more", "idle", "--efficiency"], ["--more", "idle", "--collectives"]):
        with pytest.raises(SystemExit):
            main(["show", places[0], *two])
        assert "not allowed with argument" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "option"), [("search", "--draws"), ("verify", "--draws"),
                                                 ("search", "--no-correction")])  # fmt: skip
def test_options_that_a_command_has_no_use_for_are_not_taken(
    places: tuple[str, str], command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, cluster = places
    with pytest.raises(SystemExit):
        main([command, run, "--cluster", cluster, option, *["5"] * (option == "--draws")])
    assert f"unrecognized arguments: {option}" in capsys.readouterr().err


def test_a_calibration_without_shared_cores_leaves_the_machine_as_published_and_says_so(
    places: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, cluster = places
    on_cores = [run, "--cluster", cluster, "--workers", "4", "--cores", "2"]
    save(Calibration("here", 2, 2, LINE, LINE, LINE, LINE, None), tmp_path / "here.json")
    usual = shown(capsys, *on_cores)
    found = shown(capsys, *on_cores, "--calibration", str(tmp_path / "here.json"))
    assert found["step_ns"] == usual["step_ns"]
    assert len(_unmeasured(found)) == 4
    assert any("paceline measure --lab" in reason for reason in found["rests_on"])


def test_a_librarys_times_are_named_as_estimates_until_they_are_measured(
    places: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, cluster = places
    save(Calibration("here", 2, 2, LINE, LINE, LINE, LINE, None), tmp_path / "here.json")
    usual = shown(capsys, run, "--cluster", cluster)
    found = shown(capsys, run, "--cluster", cluster, "--calibration", str(tmp_path / "here.json"))
    assert _unmeasured(usual) == [
        "gloo takes 40 us a call and 15 us a message (an estimate of its order)"
    ]
    assert not _unmeasured(found)


def _unmeasured(found: dict[str, Any]) -> list[str]:
    """What a prediction says was not measured, one constant an entry."""
    said = ("an estimate, not measured here", "defaults, measured on")
    told = [r.split(": ", 1)[1] for r in found["rests_on"] if r.startswith(said)]
    return [name for text in told for name in text.split(", ")]


def test_kernels_ask_for_the_gpu_that_they_were_recorded_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = GraphBuilder()
    card = made.device("gpu", kind=DeviceKind.GPU)
    made.op("gemm", made.lane(0, "stream", kind=LaneKind.STREAM, device=card), 1_000_000)
    save_graph(made.build(), tmp_path / "run")
    (tmp_path / "c.yaml").write_text("{hosts: 1, link: {rate: 1Gbps}}")
    wanted = [str(tmp_path / "run"), "--cluster", str(tmp_path / "c.yaml"), "--device", "h100"]
    assert main(["predict", *wanted]) == 1
    assert "such as a100-80" in capsys.readouterr().err
    found = shown(capsys, *wanted, "--recorded-device", "a100-80")
    here, there = achieved(device("a100-80")), achieved(device("h100"))
    memory = here.memory_bytes_per_s / there.memory_bytes_per_s
    body = 1_000_000 - here.least_ns
    assert found["step_ns"] == pytest.approx(there.least_ns + body * memory, rel=1e-5)
