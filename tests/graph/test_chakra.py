"""Chakra traces: an equivalent graph comes back, and the bytes are those of the public schema."""

import gzip
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.errors import FileError, PacelineError
from paceline.graph import (
    NONE,
    UNPRICED,
    Axis,
    Collective,
    DepKind,
    DeviceKind,
    Discipline,
    DType,
    Graph,
    GraphBuilder,
    LaneKind,
    OpColumns,
    OpKind,
    Phase,
)
from paceline.graph.chakra import read_chakra, write_chakra
from paceline.graph.chakra.joins import GRAPH_FILE
from paceline.graph.chakra.schema import messages
from paceline.graph.chakra.stream import read_nodes, varint, write_messages

SETTINGS = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TEXT_COLUMNS = {"name", "layer", "tensor"}


def meaning(graph: Graph) -> dict[str, Any]:
    """What a graph says, whatever the order of its name pool and of each op's dependencies."""
    columns = {
        f.name: [graph.text(i) for i in values] if f.name in TEXT_COLUMNS else values.tolist()
        for f in fields(OpColumns)
        for values in [getattr(graph.ops, f.name)]
    }
    owner = np.repeat(np.arange(len(graph)), np.diff(graph.deps.ptr))
    rows = (owner, graph.deps.src, graph.deps.kind, graph.deps.inferred)
    lanes = {k: list(v) for k, v in vars(graph.lanes).items()}
    return {
        "ops": columns,
        "deps": sorted(zip(*(row.tolist() for row in rows))),
        "lanes": lanes,
        "devices": graph.devices,
        "groups": graph.groups,
        "meta": dict(graph.meta),
    }


def two_ranks() -> Graph:
    """On each rank: compute, all-reduce, optimizer; rank 0 also sends to rank 1."""
    b = GraphBuilder(meta={"source": "drawn"})
    pair = b.group("data parallel", (0, 1), axis=Axis.DATA)
    joined, message = b.instance(), b.instance()
    for rank in (0, 1):
        gpu = b.device(f"gpu {rank}", host=rank, kind=DeviceKind.GPU)
        stream = b.lane(rank, "stream 7", device=gpu, kind=LaneKind.STREAM)
        nccl = b.lane(rank, "stream 20", device=gpu, kind=LaneKind.STREAM)
        cpu = b.lane(rank, "main")
        launch = b.op("launch", cpu, 900, kind=OpKind.HOST)
        back = b.op("matmul", stream, 1_499, after=[launch], dep=DepKind.LAUNCH, flops=12)
        reduce = b.op(
            "all_reduce",
            nccl,
            5_000,
            after=[back],
            kind=OpKind.COLLECTIVE,
            collective=Collective.ALL_REDUCE,
            dtype=DType.FLOAT32,
            size_bytes=4096,
            group=pair,
            instance=joined,
            tensor="bucket 0",
            layer="fc",
            phase=Phase.COMMUNICATION,
            priority=-3,
        )
        b.op("adam", stream, UNPRICED, after=[reduce], phase=Phase.UPDATE, step=2)
        b.op("step", stream, kind=OpKind.MARKER)
        kind = (OpKind.SEND, OpKind.RECV)[rank]
        b.op("message", nccl, 700, kind=kind, size_bytes=64, instance=message)
    return b.build()


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    b = GraphBuilder()
    ranks = draw(st.integers(1, 3))
    disciplines = st.sampled_from(Discipline)
    lanes = [b.lane(r, f"lane {r}", discipline=draw(disciplines)) for r in range(ranks)]
    lanes += [b.lane(draw(st.integers(0, ranks - 1)), "more", kind=LaneKind.STREAM)]
    group = b.group("world", range(ranks))
    for op in range(draw(st.integers(0, 12))):
        b.op(
            draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
            draw(st.sampled_from(lanes)),
            draw(st.integers(UNPRICED, 2**62)),
            kind=draw(st.sampled_from(OpKind)),
            phase=draw(st.sampled_from(Phase)),
            collective=draw(st.sampled_from(Collective)),
            dtype=draw(st.sampled_from(DType)),
            size_bytes=draw(st.integers(0, 2**63 - 1)),
            flops=draw(st.integers(0, 2**63 - 1)),
            group=draw(st.sampled_from([NONE, group])),
            instance=draw(st.integers(NONE, op)),
            priority=draw(st.integers(-(2**31), 2**31 - 1)),
            tensor=draw(st.sampled_from(["", "w"])),
        )
        for source in draw(st.sets(st.integers(0, op - 1), max_size=3)) if op else ():
            b.link(source, op, draw(st.sampled_from(DepKind)), inferred=draw(st.booleans()))
    return b.build()


@SETTINGS
@given(graphs())
def test_an_equivalent_graph_comes_back(ram: Path, graph: Graph) -> None:
    assert meaning(read_chakra(write_chakra(graph, ram / "et"))) == meaning(graph)


def test_a_job_of_two_ranks_comes_back(tmp_path: Path) -> None:
    path = write_chakra(two_ranks(), tmp_path / "et")
    names = ["comm_group.json", "graph.json", "trace.0.et", "trace.1.et"]
    assert sorted(p.name for p in path.iterdir()) == names
    assert meaning(read_chakra(path)) == meaning(two_ranks())
    write_chakra(two_ranks(), path)  # traces of ours may be replaced


def test_astra_sim_finds_what_its_feeder_asks_for(tmp_path: Path) -> None:
    path = write_chakra(two_ranks(), tmp_path / "et")
    launch, matmul, reduce, _, marker, send = read_nodes(path / "trace.0.et")
    assert [n.type for n in (launch, matmul, reduce, marker, send)] == [4, 4, 7, 1, 5]
    assert (launch.duration_micros, matmul.duration_micros) == (1, 1)  # 900 ns and 1,499 ns
    assert list(matmul.data_deps) == [launch.id]
    assert list(send.ctrl_deps) == [reduce.id]  # the queue's order
    known = {a.name: getattr(a, a.WhichOneof("value")) for a in reduce.attr}
    assert known["is_cpu_op"] is False
    assert (known["comm_type"], known["comm_size"], known["pg_name"]) == (0, 4096, "1")
    assert json.loads((path / "comm_group.json").read_text()) == {"1": [0, 1]}
    known = {a.name: getattr(a, a.WhichOneof("value")) for a in send.attr}
    assert (known["comm_src"], known["comm_dst"], known["comm_tag"]) == (0, 1, 1)


def test_a_node_has_the_bytes_of_the_public_schema() -> None:
    """Field 1 varint 5; field 2 text "ab"; field 5 packed [1, 300]; field 10 an attribute whose
    field 1 is "n" and whose field 9 (int64_val) is 7."""
    node = messages().node(id=5, name="ab", data_deps=[1, 300])
    node.attr.add(name="n", int64_val=7)
    assert node.SerializeToString().hex(" ") == (
        "08 05 12 02 61 62 2a 03 01 ac 02 52 05 0a 01 6e 48 07"
    )


def test_durations_are_rounded_to_the_nearest_microsecond(tmp_path: Path) -> None:
    b = GraphBuilder()
    lane = b.lane()
    for took in (499, 500, 1_499, 1_500, 0):
        b.op("op", lane, took)
    path = write_chakra(b.build(), tmp_path / "et")
    assert [n.duration_micros for n in read_nodes(path / "trace.0.et")] == [0, 1, 1, 2, 0]


def test_a_cut_off_gzip_file_is_refused(tmp_path: Path) -> None:
    file = foreign(tmp_path) / "llm.0.et"
    file.write_bytes(gzip.compress(file.read_bytes())[:-9])
    with pytest.raises(FileError, match=r"cannot read .*llm\.0\.et"):
        read_chakra(tmp_path)


@pytest.mark.parametrize("text", ['"text"', '{"format": "another"}', '{"format": "a"}', "{}"])
def test_a_file_beside_the_traces_that_is_not_ours_is_left_alone(tmp_path: Path, text: str) -> None:
    (foreign(tmp_path) / GRAPH_FILE).write_text(text)
    assert len(read_chakra(tmp_path)) == 8


def test_a_group_that_is_not_known_is_refused_with_those_that_are(tmp_path: Path) -> None:
    asked = node(id=1, type=7, attributes={"pg_name": ("string_val", "5")})
    write_messages(tmp_path / "t.0.et", [messages().metadata(), asked])
    with pytest.raises(FileError, match="which has none"):
        read_chakra(tmp_path)
    (tmp_path / "comm_group.json").write_text('{"1": [0], "2": [0]}')
    with pytest.raises(FileError, match=r"which has \['1', '2'\]"):
        read_chakra(tmp_path)


@given(st.integers(0, 2**35 - 1))
def test_a_varint_holds_seven_bits_a_byte(value: int) -> None:
    data = varint(value)
    assert sum((byte & 0x7F) << 7 * i for i, byte in enumerate(data)) == value
    assert [byte >> 7 for byte in data] == [1] * (len(data) - 1) + [0]


def foreign(folder: Path, ranks: int = 2) -> Path:
    """Traces as another program writes them: no lanes, no instances, the same ids on all ranks."""
    kinds = messages()
    for rank in range(ranks):
        compute = kinds.node(id=0, name="layer", type=4, duration_micros=10)
        modelled = kinds.node(id=1, name="gemm", type=4, data_deps=[0])
        modelled.attr.add(name="num_ops", int64_val=1_000)
        gather = kinds.node(id=2, name="gather", type=7, ctrl_deps=[0])
        gather.attr.add(name="comm_type", int64_val=2)
        gather.attr.add(name="comm_size", int64_val=8)
        message = kinds.node(id=3, name="p2p", type=5 + rank, data_deps=[1])
        message.attr.add(name="comm_dst" if rank == 0 else "comm_src", int32_val=1 - rank)
        parts = [kinds.metadata(version="0.0.4"), compute, modelled, gather, message]
        write_messages(folder / f"llm.{rank}.et", parts)
    return folder


def test_a_trace_of_another_program_gets_lanes_groups_and_joins(tmp_path: Path) -> None:
    graph = read_chakra(foreign(tmp_path))
    assert [str(op) for op in graph][:2] == [
        "op 0 'layer' (rank 0, compute)",
        "op 1 'layer' (rank 1, compute)",
    ]
    assert graph.ops.dur_ns.tolist() == [10_000] * 2 + [UNPRICED] * 6
    assert graph.ops.instance.tolist() == [NONE] * 4 + [0, 0, 1, 1]
    assert [g.ranks for g in graph.groups] == [(0, 1)]
    assert graph[4].collective is Collective.ALL_GATHER
    assert [graph[i].kind for i in (6, 7)] == [OpKind.SEND, OpKind.RECV]
    assert (graph[2].deps, graph[4].deps) == ((0,), (0,))


def test_gzipped_traces_are_read_and_one_file_is_one_rank(tmp_path: Path) -> None:
    plain = foreign(tmp_path) / "llm.1.et"
    plain.write_bytes(gzip.compress(plain.read_bytes()))
    assert len(read_chakra(tmp_path)) == 8
    assert read_chakra(plain).ranks == (1,)


def test_a_rank_that_is_missing_is_said_to_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    b = GraphBuilder()
    first = b.op("there", b.lane(0))
    b.op("here", b.lane(1), after=[first])
    path = write_chakra(b.build(), tmp_path / "et")
    assert "1 links between ranks" in caplog.text
    assert len(read_chakra(path / "trace.1.et").deps) == 0
    assert "waits for a rank whose trace is not here" in caplog.text


def test_what_chakra_has_no_place_for_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    b = GraphBuilder()
    op = b.op("malloc", b.lane())
    b.allocate(op, 5)
    b.samples(op, [1, 2])
    write_chakra(b.build(), tmp_path / "et")
    assert "no place for 1 memory events, 2 duration samples" in caplog.text


def node(**settings: Any) -> Any:
    attributes = settings.pop("attributes", {})
    made = messages().node(**settings)
    for name, (kind, value) in attributes.items():
        made.attr.add(name=name, **{kind: value})
    return made


@pytest.mark.parametrize(
    ("number", "kind"),
    [(2, OpKind.COPY), (3, OpKind.COPY), (8, OpKind.DATA), (9, OpKind.DATA), (10, OpKind.HOST)],
)
def test_a_node_of_another_program_is_what_its_type_says(
    tmp_path: Path, number: int, kind: OpKind
) -> None:
    write_messages(tmp_path / "t.0.et", [messages().metadata(), node(id=1, type=number)])
    assert read_chakra(tmp_path)[0].kind is kind


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node(id=1, type=4, data_deps=[9])], "waits for node 9, which is not in the file"),
        ([node(id=1, type=4), node(id=1, type=4)], "its id stands there twice"),
        ([node(id=1, type=99)], "its type is 99, known are 0 to 10"),
        ([node(id=1, type=4, duration_micros=2**63)], "more than 292 years"),
        (
            [node(id=1, type=4, attributes={"num_ops": ("uint64_val", 2**63)})],
            "num_ops is 9223372036854775808, expected a whole number from 0 to 9223372036854775807",
        ),
        (
            [node(id=1, type=7, attributes={"comm_type": ("int64_val", 77)})],
            "attribute comm_type is 77, expected a whole number from 0 to 9",
        ),
        (
            [node(id=1, type=7, attributes={"comm_size": ("string_val", "big")})],
            "attribute comm_size is 'big'",
        ),
        (
            [node(id=1, type=7, attributes={"pg_name": ("string_val", "5")})],
            "its group '5' is not in comm_group.json",
        ),
    ],
)
def test_a_wrong_node_is_named(tmp_path: Path, nodes: list[Any], message: str) -> None:
    write_messages(tmp_path / "t.0.et", [messages().metadata(), *nodes])
    with pytest.raises(FileError, match=f"node 1 .* of rank 0 in .*t.0.et.*{message}"):
        read_chakra(tmp_path)


def test_folders_without_one_set_of_traces_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="does not exist"):
        read_chakra(tmp_path / "none")
    with pytest.raises(FileError, match=r"expected one set of files NAME\.RANK\.et"):
        read_chakra(tmp_path)
    foreign(tmp_path)
    (tmp_path / "other.0.et").write_bytes(b"")
    with pytest.raises(FileError, match=r"llm.*other"):
        read_chakra(tmp_path)


def test_a_truncated_trace_is_refused(tmp_path: Path) -> None:
    data = (foreign(tmp_path) / "llm.0.et").read_bytes()
    (tmp_path / "llm.0.et").write_bytes(data[:-1])
    with pytest.raises(FileError, match=r"llm\.0\.et is truncated: the message at byte"):
        read_chakra(tmp_path)
    (tmp_path / "llm.0.et").write_bytes(b"")
    with pytest.raises(FileError, match="is empty"):
        read_chakra(tmp_path)


@SETTINGS
@given(st.data())
def test_damaged_traces_end_in_a_clear_error(ram: Path, data: st.DataObject) -> None:
    path = write_chakra(two_ranks(), ram / "et")
    file = path / data.draw(st.sampled_from(sorted(p.name for p in path.iterdir())))
    raw = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    read_or_refuse(path)


@SETTINGS
@given(st.binary(max_size=200))
def test_random_bytes_end_in_a_clear_error(ram: Path, data: bytes) -> None:
    (ram / "t.0.et").write_bytes(data)
    read_or_refuse(ram)


def read_or_refuse(path: Path) -> None:
    try:
        read_chakra(path)
    except PacelineError:
        return
