"""What a rank holds, from a recording drawn by hand.

In the detail step a first layer takes block 1 for a while and 2 to keep, a second reads 2 and keeps
its own 3; the backward pass makes gradient 4, where the old one was given up before; and something
of 8 bytes outlives the step.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from paceline.graph import Graph, LayerMemory, MemoryCategory, check
from paceline.predict import PeakMemory, predict
from paceline.record import sidecar
from paceline.record.sidecar import (
    End,
    Gradient,
    Layer,
    Memory,
    Mode,
    Parameter,
    RecordedHost,
    Saved,
    Step,
)
from paceline.replay import replay
from paceline.replay.memory_by_rank import rank_peaks
from paceline.report.text.memory import peak_line
from paceline.trace.runs import build_run

US, BATCH = 1000, 0x99
OPS = (("aten::mm", 10), ("aten::relu", 40), ("MmBackward0", 60), ("aten::add_", 90))
BLOCKS = ((12, 1, 100), (14, 2, 300), (30, 1, -100), (45, 3, 500), (62, 4, 700), (65, 3, -500),
          (70, 2, -300), (95, 5, 8))  # fmt: skip


def told() -> Iterable[sidecar.Record]:
    at = 1000 * US
    yield RecordedHost(rank=0, world_size=1, main_thread=1)
    yield Parameter(index=0, name="w", module="net.0", size_bytes=700)
    yield Step(index=6, begin_ns=at, end_ns=at + 120 * US, mode=Mode.DETAIL)
    for name, first, last, inputs, outputs in (
        ("net.0", 5, 35, {BATCH: 60}, {2: 300}),
        ("net.1", 36, 50, {2: 300}, {3: 500}),
        ("", 2, 55, {BATCH: 60}, {3: 500}),
    ):
        yield Layer(module=name, kind="Part", thread=1, begin_ns=at + first * US,
                    end_ns=at + last * US, inputs=inputs, outputs=outputs)  # fmt: skip
    for address, size, moments in ((2, 300, (20, 42)), (3, 500, (48,)), (BATCH, 60, (11,))):
        saved = [at + moment * US for moment in moments]
        yield Saved(address=address, size_bytes=size, dtype="float32", saved_ns=saved)
    yield Gradient(parameter=0, step=6, ready_ns=at + 64 * US, address=4, freed_ns=at + 3 * US)
    yield Memory(step=6, peak=False, weights=700, gradients=700, optimizer=1400)
    yield Step(index=7, begin_ns=2000 * US, end_ns=2120 * US, mode=Mode.RECORDED)
    yield End(reason="complete", at_ns=2300 * US, steps=8, recorded=1)


Ops = tuple[tuple[str, int], ...]


def recording(
    document: Callable[..., Any], folder: Path, records: Iterable[Any], recorded: Ops = OPS
) -> Path:
    for name, begin, ops in (
        (sidecar.detail_name(0), 1000, OPS),
        (sidecar.trace_name(0), 2000, recorded),
    ):
        drawn = document()
        for op, at in ops:
            drawn.op(op, begin + at, 8)
        for at, address, size in BLOCKS if begin == 1000 else ():
            args = {"Addr": address, "Bytes": size, "Device Type": 0, "Device Id": -1}
            drawn.events.append({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]",
                                 "pid": 1, "tid": 1, "ts": begin + at, "s": "t",
                                 "args": args})  # fmt: skip
        drawn.save(folder / name)
    path = folder / sidecar.facts_name(0)
    path.write_bytes(b"".join(sidecar.encode(record) for record in records))
    return folder


@pytest.fixture
def graph(document: Callable[..., Any], tmp_path: Path) -> Graph:
    return check(build_run(recording(document, tmp_path, told())))


def test_the_recorded_steps_ops_allocate_what_the_detail_steps_did(graph: Graph) -> None:
    memory = graph.memory
    found = [
        (graph[int(op)].name, int(delta), MemoryCategory(kind))
        for op, delta, kind in zip(memory.op, memory.delta_bytes, memory.category)
    ]
    activations, temporary = MemoryCategory.ACTIVATIONS, MemoryCategory.TEMPORARY
    assert found == [
        ("aten::mm", -700, MemoryCategory.GRADIENTS),  # what the step before had left
        ("aten::mm", 100, temporary),
        ("aten::mm", 300, activations),
        ("aten::mm", -100, temporary),
        ("aten::relu", 500, activations),
        ("MmBackward0", 700, MemoryCategory.GRADIENTS),
        ("MmBackward0", -500, activations),
        ("MmBackward0", -300, activations),
        ("aten::add_", 8, temporary),
        ("aten::add_", -8, temporary),  # taken to be given up before the next step
    ]


def test_each_layer_tells_what_it_keeps(graph: Graph) -> None:
    (held,) = graph.facts.memory
    assert held.layers == (
        LayerMemory("", "Part", 800, 0, 0, 0, 0, 0),
        LayerMemory("net.0", "Part", 300, 300, 300, 0, 300, 300),
        LayerMemory("net.1", "Part", 500, 0, 0, 0, 500, 800),  # one op saves both
    )


def test_the_peak_is_what_stands_and_what_the_step_adds(graph: Graph) -> None:
    (peak,) = rank_peaks(replay(graph))
    assert peak.peak_bytes == 700 + 1400 + 60 + 300 + 500 + 700
    assert peak.highest["optimizer"] == 1400
    assert peak.by_category["other"] == 60, "the batch, which is not of the step"
    assert peak.op == "MmBackward0"


def test_a_step_that_runs_another_op_too_still_tells_its_peak_and_whose_it_is(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    routed = (*OPS[:3], ("aten::zero_", 80), OPS[3])
    graph = check(build_run(recording(document, tmp_path, told(), routed)))
    (peak,) = rank_peaks(replay(graph))
    assert peak.peak_bytes == 700 + 1400 + 60 + 300 + 500 + 700
    assert peak.op == "MmBackward0"
    assert (peak.step, peak.other_ops) == (6, round(1 - 2 * 4 / 9, 4))
    assert "sizes are those of step 6" in peak_line(PeakMemory((peak,)))
    assert [note for note in graph.meta["notes"] if "1 of 1 recorded steps differ from it" in note]


def test_an_op_that_a_step_leaves_out_allocates_at_the_one_before_it(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    shorter = (OPS[0], *OPS[2:])
    graph = build_run(recording(document, tmp_path, told(), shorter))
    memory = graph.memory
    given = [graph[int(op)].name for op, d in zip(memory.op, memory.delta_bytes) if d == 500]
    assert given == ["aten::mm"]
    assert int(memory.delta_bytes.sum()) == 0, "all is given back"


def test_a_step_that_is_another_altogether_tells_no_memory_and_says_so(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    other = (("aten::conv2d", 10), ("aten::add", 40), ("aten::sub", 60))
    graph = build_run(recording(document, tmp_path, told(), other))
    assert predict(graph).memory is None
    assert [note for note in graph.meta["notes"] if "layers and memory are unknown" in note]


def test_steps_that_are_alike_say_nothing_of_it(graph: Graph) -> None:
    (peak,) = rank_peaks(replay(graph))
    assert not peak.other_ops
    assert "sizes" not in peak_line(PeakMemory((peak,)))


def test_a_recording_of_an_older_version_says_that_it_lacks_memory(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    older = [r for r in told() if not isinstance(r, (Memory, Saved))]
    graph = build_run(recording(document, tmp_path, older))
    assert not graph.facts.memory
    assert predict(graph).memory is None
