"""What is read from a trace's own events: tree, shapes, counters, an operator as a script."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.analyse.counters import counters_of
from paceline.analyse.extract import chosen, script_of
from paceline.analyse.shapes import shapes_of
from paceline.analyse.tree import Node, tree_of
from paceline.errors import TraceError
from paceline.trace.readers import chrome
from paceline.trace.readers.called import called, counted
from paceline.trace.readers.source import Source

ADDMM = {
    "Input Dims": [[8], [4, 6], [6, 8], [], []],
    "Input Strides": [[1], [6, 1], [1, 6], [], []],
    "Input type": ["float", "float", "float", "Scalar", "Scalar"],
    "Concrete Inputs": ["", "", "", "1", "1"],
}


def event(cat: str, name: str, start: float, dur: float, tid: int = 1, **args: Any) -> Any:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": dur,
            "args": args}  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """A module that calls linear, which calls addmm, which launches a kernel; and a counter."""
    events = [
        event("python_function", "nn.Module: Net_0", 0, 100),
        event("cpu_op", "aten::linear", 10, 60),
        event("cpu_op", "aten::addmm", 20, 40, **ADDMM),
        event("cuda_runtime", "cudaLaunchKernel", 30, 10, correlation=5),
        event("cpu_op", "aten::addmm", 80, 10, **ADDMM),
        event("kernel", "gemm", 45, 20, tid=7, correlation=5, device=0, stream=7),
        event("cuda_profiler_range", "gemm", 45, 20, **{"smsp__inst_executed.sum": 1000}),
        event("cuda_profiler_range", "gemm", 65, 20, **{"smsp__inst_executed.sum": 500}),
    ]
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return Source(path)


def below(node: Node, *names: str) -> Node:
    for name in names:
        node = next(child for child in node.inside if child.name == name)
    return node


def test_the_tree_leads_from_the_module_to_the_kernel_with_times_at_every_level(
    source: Source,
) -> None:
    root = tree_of(chrome.read(source))
    module = below(root, "Net_0")
    assert (module.kind, module.host_ns, module.device_ns) == ("module", 100_000, 20_000)
    kernel = below(module, "aten::linear", "aten::addmm", "gemm")
    assert (kernel.kind, kernel.count, kernel.device_ns) == ("kernel", 1, 20_000)
    assert below(module, "aten::addmm").device_ns == 0


def test_calls_with_the_same_shapes_are_one_row(source: Source) -> None:
    (row,) = shapes_of(called(source))
    assert (row.call.name, row.count, row.total_us) == ("aten::addmm", 2, 50)


def test_counters_are_summed_over_their_ranges(source: Source) -> None:
    (row,) = counters_of(counted(source))
    assert (row.counter, row.count, row.total) == ("smsp__inst_executed.sum", 2, 1500)


def test_an_operator_that_is_not_there_names_those_that_are(source: Source) -> None:
    with pytest.raises(TraceError, match="some that are: aten::addmm"):
        chosen(shapes_of(called(source)), "aten::admm")


def test_a_trace_without_shapes_says_how_to_get_them() -> None:
    with pytest.raises(TraceError, match="record_shapes=True"):
        chosen((), "aten::addmm")


@pytest.mark.needs("torch")
def test_the_script_repeats_shapes_strides_and_types_with_torch_alone(
    source: Source, tmp_path: Path
) -> None:
    script = tmp_path / "repro.py"
    script.write_text(script_of(chosen(shapes_of(called(source)), "aten::addmm"), "a", threads=1))
    check = (
        "import runpy\n"
        f"made = runpy.run_path({str(script)!r})\n"
        "given = made['arguments']()\n"
        "print([(tuple(x.shape), x.stride()) for x in given[:3]], given[3:])\n"
        "print(tuple(made['call'](given).shape))\n"
    )
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        "[((8,), (1,)), ((4, 6), (6, 1)), ((6, 8), (1, 6))] [1, 1]",
        "(4, 8)",
    ]
