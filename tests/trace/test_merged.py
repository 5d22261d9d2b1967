"""Files that hold more than one trace: the same twice, several processes, one inside another."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.analyse.efficiency import summarise_efficiency
from paceline.cluster.files import device
from paceline.errors import TraceError
from paceline.graph import Graph, OpKind, check
from paceline.replay import replay
from paceline.trace.importing import Import, import_graph
from paceline.trace.parts import RankTrace
from paceline.trace.readers.rawevents import Ranges
from paceline.trace.readers.repeated import without_repeats
from paceline.trace.readers.scan import plain_scan
from paceline.trace.readers.source import Source

Make = Callable[..., Any]
MM = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["c10::BFloat16"] * 2}


def imported(path: Path, **how: Any) -> Graph:
    return check(import_graph([path], Import(**how)))


def notes(graph: Graph) -> str:
    return "\n".join(graph.meta["notes"])


def worked(d: Any, *, pid: int = 1, on: int = 0, begin: float = 0, first: int = 1) -> Any:
    """Two products of a process, each launched 10 us before it begins on the device."""
    for number in (0, 1):
        at, call = begin + 100 * number, first + number
        place = {"pid": pid, "tid": pid}
        d.event("cpu_op", "aten::mm", at, 50, **place, **MM, **{"External id": call})
        d.event("cuda_runtime", "cudaLaunchKernel", at + 5, 5, **place, correlation=call)
        d.event("kernel", "gemm", at + 15, 40, pid=on, tid=7, stream=7, correlation=call)
    return d


def kernels(graph: Graph) -> int:
    return int((graph.ops.kind == OpKind.COMPUTE).sum())


def test_events_that_stand_twice_in_a_file_are_counted_once(document: Make, tmp_path: Path) -> None:
    once = worked(document().step(1, 0, 300))
    alone = imported(once.save(tmp_path / "once.json"), ranks=(0,))
    once.events = once.events * 2
    graph = imported(once.save(tmp_path / "twice.json"), ranks=(0,))
    assert "7 events stand in the file a second time and are counted once" in notes(graph)
    assert kernels(graph) == kernels(alone) == 2
    assert replay(graph).step_ns == replay(alone).step_ns
    assert graph.ops.flops.sum() == alone.ops.flops.sum()


def test_ranges_without_a_number_may_be_equal_by_chance(document: Make) -> None:
    d = document().op("aten::empty", 0, 0).op("aten::empty", 0, 0)
    raw = plain_scan([d.text()])
    assert without_repeats(raw) == (raw, 0)


def test_what_is_told_of_a_kept_event_stays_with_it(document: Make) -> None:
    d = document()
    for number, name in ((1, "allreduce"), (2, "broadcast")):
        for _ in range(number):  # the first once, the second twice
            d.kernel("ncclKernel", 10 * number, 5, number, **{"Collective name": name})
    raw, repeats = without_repeats(plain_scan([d.text()]))
    assert repeats == 1
    assert [json.loads(args)["Collective name"] for _, args in raw.details] == [
        "allreduce",
        "broadcast",
    ]
    assert [row for row, _ in raw.details] == [0, 1]
    assert isinstance(raw.ranges, Ranges)


def test_processes_of_a_merged_file_whose_devices_are_told_become_ranks(
    document: Make, tmp_path: Path
) -> None:
    d = worked(document(rank=None).step(1, 0, 300), pid=70, on=1)
    d.event("user_annotation", "ProfilerStep#1", 0, 300, pid=60)
    worked(d, pid=60, on=0, begin=20, first=11)
    d.events[0]["pid"] = 70
    graph = imported(d.save(tmp_path / "both.json"))
    assert graph.ranks == (0, 1)
    assert "the file holds 2 processes: each is taken as a rank" in notes(graph)
    first, second = ([op for op in graph if op.rank == r and op.name == "gemm"] for r in (0, 1))
    assert (len(first), len(second)) == (2, 2)
    assert replay(graph).start_ns[first[0].id] == 35_000  # the process on device 0 began later


def test_a_device_that_two_processes_may_have_used_is_that_of_the_one_without(
    document: Make, tmp_path: Path
) -> None:
    d = worked(document(rank=None).step(1, 0, 300), pid=70, on=1)
    d.events[0]["pid"] = 70
    d.event("user_annotation", "ProfilerStep#1", 0, 300, pid=60)
    worked(d, pid=60, on=0, begin=20)  # under the same numbers of calls, but later
    graph = imported(d.save(tmp_path / "both.json"))
    first = [op for op in graph if op.rank == 0 and op.name == "gemm"]
    assert replay(graph).start_ns[first[0].id] == 35_000


def test_processes_whose_kernels_cannot_be_told_apart_are_refused(
    document: Make, tmp_path: Path
) -> None:
    d = worked(worked(document().step(1, 0, 300), pid=60, on=0), pid=70, on=0, first=11)
    with pytest.raises(TraceError, match=r"2 processes \(60, 70\).*Import the ranks' own files"):
        imported(d.save(tmp_path / "rank0.json"))
    alike = worked(worked(document().step(1, 0, 300), pid=60, on=0), pid=70, on=1)
    with pytest.raises(TraceError, match="more than one of the processes may have launched them"):
        imported(alike.save(tmp_path / "rank0.json"))


def test_processes_of_one_number_are_refused(document: Make, tmp_path: Path) -> None:
    d = worked(worked(document().step(1, 0, 300), on=0), on=1, begin=7)
    with pytest.raises(TraceError, match=r"processes of the same number \(pid\) were merged"):
        imported(d.save(tmp_path / "rank0.json"))


def test_a_merged_file_is_not_read_one_rank_per_worker(document: Make, tmp_path: Path) -> None:
    d = worked(document(rank=None).step(1, 0, 300), pid=70, on=1)
    path = worked(d, pid=60, on=0, begin=20, first=11).save(tmp_path / "both.json")
    with pytest.raises(TraceError, match="holds the traces of 2 processes"):
        RankTrace(Source(path)).read()


def test_a_process_on_two_devices_is_one_rank_and_counts_both(
    document: Make, tmp_path: Path
) -> None:
    one = worked(document().step(1, 0, 500), on=0)
    both = worked(worked(document().step(1, 0, 500), on=0), on=1, begin=200, first=11)
    alone = imported(one.save(tmp_path / "one.json"), ranks=(0,))
    graph = imported(both.save(tmp_path / "both.json"), ranks=(0,))
    assert "kernels of one process ran on devices 0, 1: they are one rank" in notes(graph)
    h100 = device("h100")
    one_device, two = (summarise_efficiency(replay(each), h100) for each in (alone, graph))
    assert two.utilisation * replay(graph).step_ns == pytest.approx(
        one_device.utilisation * replay(alone).step_ns
    )
    assert two.gaps.whole_ns == 2 * one_device.gaps.whole_ns


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ('{"schemaVersion": 1, "traceEvents": {"rank 0": [%s]}}', "whose first key is 'rank 0'"),
        ('{"traceEvents": {"traceEvents": [%s]}}', "an object under traceEvents"),
        ('[{"deviceProperties": [], "traceEvents": [%s]}]', "is a list of whole traces"),
    ],
)
def test_a_trace_inside_another_is_named(
    document: Make, tmp_path: Path, shape: str, told: str
) -> None:
    events = json.dumps(worked(document()).events)[1:-1]
    (tmp_path / "odd.json").write_text(shape % events)
    with pytest.raises(TraceError, match=rf"odd\.json .*{told}"):
        imported(tmp_path / "odd.json")
