"""Perfetto traces: every op on its track at its time, collectives joined, nothing out of order."""

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.errors import FileError
from paceline.graph import Collective, Graph, GraphBuilder, OpKind
from paceline.graph.graph import Int64
from paceline.report import write_perfetto
from paceline.report.perfetto import microseconds


@dataclass(frozen=True)
class Recorded:
    ready_ns: Int64
    start_ns: Int64
    end_ns: Int64

    @staticmethod
    def of(*rows: tuple[int, int, int]) -> "Recorded":
        return Recorded(*np.array(rows, np.int64).T.copy())


def job() -> tuple[Graph, Recorded]:
    """Rank 0 computes 1,500 ns, rank 1 2,001 ns; both then reduce for 1,000 ns, so rank 0 waits."""
    b = GraphBuilder()
    group = b.group("world", (0, 1))
    joined = b.instance()
    for rank, busy in ((0, 1_500), (1, 2_001)):
        lane = b.lane(rank, f'stream "{rank}"')
        b.op("matmul", lane, busy, layer="fc")
        b.op(
            "all_reduce",
            lane,
            1_000,
            kind=OpKind.COLLECTIVE,
            collective=Collective.ALL_REDUCE,
            group=group,
            instance=joined,
            size_bytes=64,
        )
    times = Recorded.of((0, 0, 1_500), (1_500, 2_001, 3_001), (0, 0, 2_001), (2_001, 2_001, 3_001))
    return b.build(), times


def events(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return found


def test_every_rank_is_a_process_and_every_lane_a_thread(tmp_path: Path) -> None:
    shown = events(write_perfetto(*job(), tmp_path / "t.json"))
    names = [(e["name"], e["pid"], e["tid"], e["args"]) for e in shown if e["ph"] == "M"]
    assert ("process_name", 1, 0, {"name": "rank 1"}) in names
    assert ("thread_name", 1, 2, {"name": 'stream "1"'}) in names


def test_waiting_is_told_from_transfer_inside_the_op(tmp_path: Path) -> None:
    shown = events(write_perfetto(*job(), tmp_path / "t.json"))
    slices = [(e["name"], e["pid"], e["ts"], e["dur"]) for e in shown if e["ph"] == "X"]
    assert slices == [
        ("matmul", 0, 0.0, 1.5),
        ("matmul", 1, 0.0, 2.001),
        ("all_reduce", 0, 1.5, 1.501),
        ("waiting", 0, 1.5, 0.501),
        ("transfer", 0, 2.001, 1.0),
        ("all_reduce", 1, 2.001, 1.0),
    ]


def test_a_collective_is_a_flow_from_the_first_arrival_to_the_last(tmp_path: Path) -> None:
    shown = events(write_perfetto(*job(), tmp_path / "t.json"))
    flows = [
        (e["ph"], e["pid"], e["ts"])
        for e in shown
        if e["cat" if "cat" in e else "ph"] == "instance"
    ]
    assert flows == [("s", 0, 1.5), ("f", 1, 2.001)]


def test_what_an_op_is_stands_in_its_arguments(tmp_path: Path) -> None:
    shown = events(write_perfetto(*job(), tmp_path / "t.json"))
    arguments = [e["args"] for e in shown if e["ph"] == "X" and "args" in e]
    assert arguments[0] == {"op": 0, "layer": "fc"}
    assert arguments[2] == {"op": 1, "size_bytes": 64}


def test_a_trace_may_be_gzipped(tmp_path: Path) -> None:
    plain = write_perfetto(*job(), tmp_path / "t.json").read_bytes()
    assert gzip.decompress(write_perfetto(*job(), tmp_path / "t.json.gz").read_bytes()) == plain


def test_an_empty_graph_is_a_valid_trace(tmp_path: Path) -> None:
    times = Recorded(*np.zeros((3, 0), np.int64))
    assert events(write_perfetto(GraphBuilder().build(), times, tmp_path / "t.json")) == []


@pytest.mark.parametrize("name", ["trace.txt", "trace"])
def test_other_endings_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileError, match=r"end its name in \.json or \.json\.gz"):
        write_perfetto(*job(), tmp_path / name)


@given(st.integers(-(2**63), 2**63 - 1))
def test_no_nanosecond_is_lost(ns: int) -> None:
    whole, fraction = microseconds(ns).split(".")
    assert int(whole + fraction) == ns


PAIR = st.tuples(st.integers(0, 3_000), st.integers(1, 3_000))


@st.composite
def timelines(draw: st.DrawFn) -> tuple[Graph, Recorded]:
    b = GraphBuilder()
    rows = []
    for rank in range(draw(st.integers(1, 3))):
        lane, clock = b.lane(rank), 0
        for _ in range(draw(st.integers(0, 5))):
            b.op("op", lane, kind=OpKind.COLLECTIVE, instance=draw(st.integers(-1, 2)))
            ready, start, end = np.cumsum([clock, *draw(PAIR)]).tolist()
            rows.append((ready, start, end))
            clock = end
    return b.build(), Recorded(*np.array(rows, np.int64).reshape(-1, 3).T.copy())


@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(timelines())
def test_events_are_sorted_slices_nest_and_flows_start_step_and_finish(
    ram: Path, timeline: tuple[Graph, Recorded]
) -> None:
    """What Perfetto asks of a trace."""
    shown = [e for e in events(write_perfetto(*timeline, ram / "t.json")) if e["ph"] != "M"]
    assert [e["ts"] for e in shown] == sorted(e["ts"] for e in shown)
    open_slices: dict[tuple[int, int], list[float]] = defaultdict(list)
    open_flows: dict[int, int] = defaultdict(int)
    for event in shown:
        ends = open_slices[event["pid"], event["tid"]]
        if event["ph"] == "X":
            while ends and ends[-1] <= event["ts"] + 1e-9:
                ends.pop()
            ends.append(event["ts"] + event["dur"])
            assert ends == sorted(ends, reverse=True) or ends[-1] - ends[-2] < 1e-9
        else:
            assert ends[-1] >= event["ts"]
            open_flows[event["id"]] += {"s": 1, "t": 0, "f": -1}[event["ph"]]
            assert open_flows[event["id"]] == (event["ph"] != "f")
    assert not any(open_flows.values())
