"""Every other format: told by content, read into the same columns."""

import json
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import TraceError
from paceline.graph import Collective, LaneKind, OpKind, check
from paceline.graph.work import Family
from paceline.trace.build import build
from paceline.trace.readers import Format, format_of, read_all
from paceline.trace.readers.source import Source, sources
from paceline.trace.trace import Category, Trace


def one(path: Path) -> Trace:
    (trace,) = read_all(sources([path]))
    return trace


def names(trace: Trace) -> list[str]:
    return [trace.names[i] for i in trace.events.name]


# NCCL flight recorder


def dump(*calls: tuple[str, int, int]) -> dict[str, Any]:
    """Entries (profiling name, sequence, created) of group "7" with ranks 0 and 1."""
    return {
        "version": "2.4",
        "rank": 0,
        "pg_config": {"7": {"name": "7", "desc": "dp", "ranks": "[0, 1]"}},
        "entries": [
            {
                "profiling_name": name,
                "collective_seq_id": sequence,
                "process_group": ["7", "dp"],
                "time_created_ns": created,
                "input_sizes": [[10, 10]],
                "input_dtypes": ["Float"],
            }
            for name, sequence, created in calls
        ],
    }


def bare_collective(document: Callable[..., Any], path: Path) -> Path:
    """A kernel that says no more than its name, launched at 50 us."""
    d = document(world_size=2).call("cudaLaunchKernel", 50, 2, correlation=5)
    d.kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 60, 20, 5)
    return Path(d.save(path))


@pytest.mark.parametrize("packed", [True, False])
def test_a_flight_recorder_gives_group_and_sequence_to_the_kernels_of_its_rank(
    document: Callable[..., Any], tmp_path: Path, packed: bool
) -> None:
    bare_collective(document, tmp_path / "rank0.json")
    told = dump(("nccl:all_reduce", 41, 48_000), ("nccl:all_reduce", 42, 90_000))
    data = pickle.dumps(told) if packed else json.dumps(told).encode()
    (tmp_path / "dump_0").write_bytes(data)
    assert format_of(Source(tmp_path / "dump_0")) is Format.FLIGHT
    trace = one(tmp_path)
    assert trace.collectives.sequence.tolist() == [41]
    assert trace.names[trace.collectives.group[0]] == "7"
    assert trace.collectives.size_bytes.tolist() == [400]
    assert trace.groups["7"] == (0, 1)


class Attack:
    """What a pickle can do to whoever loads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("the pickle ran code",))


def test_a_pickle_that_would_run_code_is_refused(
    document: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare_collective(document, tmp_path / "rank0.json")
    (tmp_path / "dump_0").write_bytes(pickle.dumps({"entries": [Attack()]}))
    with pytest.raises(TraceError, match="a dump never needs"):
        one(tmp_path)
    assert capsys.readouterr().out == ""


def test_a_flight_recorder_alone_has_no_times(tmp_path: Path) -> None:
    (tmp_path / "dump_0").write_bytes(pickle.dumps(dump(("nccl:all_reduce", 1, 1))))
    with pytest.raises(TraceError, match="hold no kernel times"):
        one(tmp_path)


# Chakra host execution traces


def host_trace(path: Path) -> Path:
    """A process, a thread, and two ops; the matrix product reads and writes 3 x 48 bytes."""

    def node(number: int, name: str, parent: int, rf_id: int, tensors: int = 0) -> dict[str, Any]:
        return {
            "id": number,
            "name": name,
            "ctrl_deps": parent,
            "inputs": {"values": [], "shapes": [[3, 4]] * tensors, "types": ["Tensor(float)"] * 2},
            "outputs": {
                "values": [],
                "shapes": [[3, 4]] * (tensors > 0),
                "types": ["Tensor(float)"],
            },
            "attrs": [{"name": "rf_id", "type": "uint64", "value": rf_id}],
        }

    nodes = [
        node(1, "[pytorch|profiler|execution_trace|process]", 1, 0),
        node(2, "[pytorch|profiler|execution_trace|thread]", 1, 0),
        node(3, "aten::mm", 2, 17, tensors=2),
        node(4, "aten::add", 2, 18),
    ]
    path.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": nodes}))
    return path


def test_an_execution_trace_gives_its_partner_the_bytes_of_each_op(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    host_trace(tmp_path / "et_rank_0.json")
    d = document().event("cpu_op", "aten::mm", 0, 5, **{"Record function id": 17})
    d.save(tmp_path / "kineto_rank_0.json")
    assert one(tmp_path).events.size_bytes.tolist() == [144]


def test_an_execution_trace_without_partner_is_a_trace_to_be_priced(tmp_path: Path) -> None:
    trace = one(host_trace(tmp_path / "et.json"))
    assert names(trace) == ["aten::mm", "aten::add"]
    graph = check(build([trace]))
    assert graph.ops.dur_ns.tolist().count(-1) == 2
    assert "no times" in graph.meta["notes"][-1]


# TensorFlow, MXNet, JAX


def save(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_mxnet_begins_and_ends_are_paired(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "cpu/0"}},
        {"ph": "B", "name": "Convolution", "cat": "operator", "pid": 0, "tid": 1, "ts": 10},
        {"ph": "B", "name": "inner", "cat": "operator", "pid": 0, "tid": 1, "ts": 12},
        {"ph": "E", "name": "inner", "cat": "operator", "pid": 0, "tid": 1, "ts": 14},
        {"ph": "E", "name": "Convolution", "cat": "operator", "pid": 0, "tid": 1, "ts": 30},
    ]
    trace = one(save(tmp_path / "profile.json", {"traceEvents": rows}))
    assert dict(zip(names(trace), (trace.events.end_ns - trace.events.start_ns).tolist())) == {
        "Convolution": 20_000,
        "inner": 2_000,
    }


def test_tensorflow_streams_are_devices_and_horovods_collectives_are_named(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 3, "args": {"name": "/device:GPU:0 Compute"}},
        {"ph": "X", "name": "MatMul", "cat": "Op", "pid": 3, "tid": 0, "ts": 5, "dur": 7},
        {"ph": "X", "name": "HorovodAllreduce_grad_0", "pid": 3, "tid": 0, "ts": 12, "dur": 3},
    ]
    trace = one(save(tmp_path / "timeline.json", {"traceEvents": rows}))
    assert trace.lanes[0].kind is LaneKind.STREAM
    assert trace.events.category.tolist() == [Category.KERNEL, Category.KERNEL]
    assert trace.collectives.op.tolist() == [Collective.ALL_REDUCE]
    assert [op.kind for op in build([trace])] == [OpKind.COMPUTE, OpKind.COLLECTIVE]


def test_jax_summary_rows_do_not_repeat_the_ops(tmp_path: Path) -> None:
    def thread(number: int, name: str) -> dict[str, Any]:
        return {"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": {"name": name}}

    rows: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:TPU:0"}},
        thread(1, "XLA Modules"),
        thread(2, "XLA Ops"),
        thread(3, "Steps"),
        {"ph": "X", "name": "jit_step", "pid": 1, "tid": 1, "ts": 0, "dur": 100},
        {"ph": "X", "name": "fusion.1", "pid": 1, "tid": 2, "ts": 0, "dur": 60},
        {"ph": "X", "name": "all-reduce.3", "pid": 1, "tid": 2, "ts": 60, "dur": 40},
        {"ph": "X", "name": "5", "pid": 1, "tid": 3, "ts": 0, "dur": 100},
    ]
    trace = one(save(tmp_path / "perfetto.json", {"displayTimeUnit": "ns", "traceEvents": rows}))
    assert names(trace) == ["fusion.1", "all-reduce.3"]
    assert trace.steps.number.tolist() == [5]
    assert trace.collectives.op.tolist() == [Collective.ALL_REDUCE]


# XPlane


def field(number: int, value: int | bytes | str) -> bytes:
    """One protocol-buffer field."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def xplane() -> bytes:
    """One device plane with a line of two ops that start 1 us and 5 us after 7 us."""
    events = b"".join(
        field(4, field(1, number) + field(2, offset) + field(3, spent))
        for number, offset, spent in ((1, 1_000_000, 4_000_000), (2, 5_000_000, 2_000_000))
    )
    line = field(2, "XLA Ops") + field(3, 7_000) + events
    metadata = b"".join(
        field(4, field(1, number) + field(2, field(1, number) + field(2, name)))
        for number, name in ((1, "fusion"), (2, "all-gather-start.1"))
    )
    return field(1, field(1, 0) + field(2, "/device:GPU:0") + field(3, line) + metadata)


def test_an_xplane_file_gives_ops_lanes_and_collectives(tmp_path: Path) -> None:
    (tmp_path / "host.xplane.pb").write_bytes(xplane())
    assert format_of(Source(tmp_path / "host.xplane.pb")) is Format.XPLANE
    trace = one(tmp_path)
    assert names(trace) == ["fusion", "all-gather-start.1"]
    assert trace.events.start_ns.tolist() == [8_000, 12_000]
    assert trace.events.end_ns.tolist() == [12_000, 14_000]
    assert trace.collectives.op.tolist() == [Collective.ALL_GATHER]
    check(build([trace]))


def test_a_tpus_plane_states_the_work_of_its_operations(tmp_path: Path) -> None:
    stats = {1: "hlo_category", 2: "flops", 3: "bytes_accessed", 4: "convolution fusion",
             5: "device_type_string"}  # fmt: skip
    named = b"".join(
        field(5, field(1, number) + field(2, field(1, number) + field(2, name)))
        for number, name in stats.items()
    )
    work = [field(1, 1) + field(7, 4), field(1, 2) + field(3, 4096), field(1, 3) + field(4, 512)]
    fusion = field(1, 1) + field(2, "fusion.1") + b"".join(field(5, stat) for stat in work)
    event = field(4, field(1, 1) + field(2, 0) + field(3, 4_000_000))
    line = field(2, "XLA Ops") + field(3, 7_000) + event
    plane = field(2, "/device:TPU:0") + field(3, line) + field(4, field(1, 1) + field(2, fusion))
    device = field(6, field(1, 5) + field(5, "TPU v5 lite"))
    (tmp_path / "host.xplane.pb").write_bytes(field(1, plane + named + device))
    graph = build([one(tmp_path)])
    op = next(op for op in graph if op.name == "fusion.1")
    assert op.work is not None
    assert (op.work.work.family, op.work.inferred) == (Family.MATRIX, False)
    assert (graph.ops.flops[op.id], op.size_bytes) == (4096, 512)
    assert [gpu.name for gpu in graph.facts.gpus] == ["TPU v5 lite"]


def test_a_truncated_xplane_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "host.xplane.pb").write_bytes(xplane()[:-3])
    with pytest.raises(TraceError, match="no whole XPlane file"):
        one(tmp_path)


# PyTorch's own older format, and archives


def test_pytorch_1_8_writes_categories_and_streams_in_words(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"ph": "X", "cat": "Operator", "name": "aten::mm", "pid": 1, "tid": "1", "ts": 1, "dur": 9},
        {
            "ph": "X",
            "cat": "Runtime",
            "name": "cudaLaunchKernel",
            "pid": 1,
            "tid": "1",
            "ts": 3,
            "dur": 2,
            "args": {"correlation": 9},
        },
        {
            "ph": "X",
            "cat": "Kernel",
            "name": "gemm",
            "pid": 0,
            "tid": "stream 7",
            "ts": 6,
            "dur": 3,
            "args": {"correlation": 9, "stream": 7, "device": 0},
        },
    ]
    trace = one(save(tmp_path / "old.json", {"schemaVersion": 1, "traceEvents": rows}))
    assert [lane.name for lane in trace.lanes if lane.kind is LaneKind.STREAM] == ["stream 7"]
    graph = build([trace])
    assert "latency" in graph.names  # the kernel hangs on its launch


def test_folders_tars_and_gzip_are_looked_into(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    document(rank=0, world_size=2).op("aten::mm", 0, 5).save(folder / "a.json.gz")
    document(rank=1, world_size=2).op("aten::mm", 0, 5).save(folder / "b.json")
    with tarfile.open(tmp_path / "both.tgz", "w:gz") as archive:
        archive.add(folder, "traces")
    for path in (folder, tmp_path / "both.tgz"):
        assert [trace.rank for trace in read_all(sources([path]))] == [0, 1]
