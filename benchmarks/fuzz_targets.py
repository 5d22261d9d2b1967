"""What the fuzzer feeds: one function a reader, given a scratch folder.

A target writes seeds into `seeds/` there and returns what to do with bytes. It imports its reader
itself, so that the fuzzer can instrument it. To fuzz another reader, add its function to `TARGETS`.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paceline.graph import Graph

Target = Callable[[Path], Callable[[bytes], None]]
"""Given a scratch folder, writes seeds into `seeds/` there and returns what to do with bytes."""


def graph_header(scratch: Path) -> Callable[[bytes], None]:
    """`header.json` of a graph folder."""
    from paceline.graph import load_graph

    folder = _saved(scratch)
    header = folder / "header.json"
    _seed(scratch, header.read_bytes(), b"{}", b'{"format": "paceline graph", "schema": 2}')

    def read(data: bytes) -> None:
        header.write_bytes(_vouched(data))
        load_graph(folder)

    return read


def graph_table(scratch: Path) -> Callable[[bytes], None]:
    """A Parquet table whose header vouches for it, so that the bytes reach the decoder."""
    from paceline.graph.columns import TABLES, decode

    folder = _saved(scratch)
    names = sorted(path.stem for path in folder.glob("*.parquet"))
    _seed(scratch, *((folder / f"{n}.parquet").read_bytes() for n in names))

    def read(data: bytes) -> None:
        decode(data, TABLES[names[len(data) % len(names)]], "fuzzed table")

    return read


def chakra_trace(scratch: Path) -> Callable[[bytes], None]:
    """A `.et` file of another program."""
    from paceline.graph.chakra import read_chakra, write_chakra

    traces = write_chakra(_drawn(), scratch / "et")
    _seed(scratch, *(path.read_bytes() for path in traces.glob("*.et")))
    alone = scratch / "alone"
    alone.mkdir()

    def read(data: bytes) -> None:
        (alone / "t.0.et").write_bytes(data)
        read_chakra(alone)

    return read


def chakra_beside(scratch: Path) -> Callable[[bytes], None]:
    """`graph.json` beside traces of our own."""
    from paceline.graph.chakra import read_chakra, write_chakra

    beside = write_chakra(_drawn(), scratch / "et") / "graph.json"
    _seed(scratch, beside.read_bytes())

    def read(data: bytes) -> None:
        beside.write_bytes(data)
        read_chakra(beside.parent)

    return read


def profiler_trace(scratch: Path) -> Callable[[bytes], None]:
    """A Chrome-format trace: what profilers export."""
    from paceline.trace.readers import chrome
    from paceline.trace.readers.source import sources

    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2}
    kernel = {**op, "cat": "kernel", "tid": 7, "args": {"stream": 7, "correlation": 3}}
    launch = {**op, "cat": "cuda_runtime", "args": {"correlation": 3}}
    step = {**op, "cat": "user_annotation", "name": "ProfilerStep#1"}
    events = [step, op, launch, kernel]
    whole = {"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": events}
    _seed(scratch, json.dumps(whole).encode(), json.dumps(events).encode())
    file = scratch / "trace.json"

    def read(data: bytes) -> None:
        file.write_bytes(data)
        for source in sources([file]):
            chrome.read(source)

    return read


_CLUSTER = b"""
hosts: {count: 2, device: epyc-2c}
link: {preset: ethernet-1g, rate: 500Mbps}
topology: {kind: leaf-spine, hosts_per_leaf: 2, oversubscription: 2}
transport: {efficiency: 0.957, congestion: reno}
"""


def cluster_description(scratch: Path) -> Callable[[bytes], None]:
    """A cluster in YAML."""
    from paceline.cluster.files import dump, load, parse

    file = scratch / "cluster.yaml"
    _seed(scratch, _CLUSTER)

    def read(data: bytes) -> None:
        file.write_bytes(data)
        parse(dump(load(file)))

    return read


def _drawn() -> "Graph":
    """A small graph with two ranks, a collective and every kind of column."""
    from paceline.graph import Collective, GraphBuilder, OpKind

    b = GraphBuilder(meta={"source": "drawn"})
    group, joined = b.group("world", (0, 1)), b.instance()
    for rank in (0, 1):
        lane = b.lane(rank)
        first = b.op("matmul", lane, 5, layer="fc", flops=7)
        member = {"kind": OpKind.COLLECTIVE, "collective": Collective.ALL_REDUCE}
        b.op("reduce", lane, 3, after=[first], group=group, instance=joined, **member)
        b.allocate(first, 64)
        b.samples(first, [4, 6])
    return b.build()


def _saved(scratch: Path) -> Path:
    from paceline.graph import save_graph

    return save_graph(_drawn(), scratch / "graph")


def _vouched(data: bytes) -> bytes:
    """The header with a checksum that fits, where it is JSON at all."""
    try:
        body = json.loads(data)
        if not isinstance(body, dict):
            return data
        body.pop("sha256", None)
        canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return data
    return json.dumps({**body, "sha256": hashlib.sha256(canonical.encode()).hexdigest()}).encode()


def _seed(scratch: Path, *seeds: bytes) -> None:
    folder = scratch / "seeds"
    folder.mkdir()
    for number, seed in enumerate(seeds):
        (folder / str(number)).write_bytes(seed)


TARGETS: dict[str, Target] = {
    "graph-header": graph_header,
    "graph-table": graph_table,
    "chakra-trace": chakra_trace,
    "chakra-beside": chakra_beside,
    "profiler-trace": profiler_trace,
    "cluster-description": cluster_description,
}
