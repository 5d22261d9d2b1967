"""The job that the contract's worker trains, drawn as recordings of it show it."""

from collections.abc import Iterator
from math import prod

import pytest

from paceline.graph import (
    Axis,
    Collective,
    DepKind,
    DType,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    MemoryCategory,
    OpKind,
    Parameter,
    Phase,
    Role,
    check,
)
from paceline.graph.facts import RecordedGpu
from paceline.graph.work import Matrix, Recorded, matrix

MODEL = {
    "4.bias": (4,), "4.weight": (4, 64), "2.bias": (64,), "2.weight": (64, 64), "0.bias": (64,),
    "0.weight": (64, 20),
}  # fmt: skip
"""The parameters of the worker's model."""
ROWS = 32  # samples of a worker's batch
MODEL_BYTES = 4 * (20 * 64 + 64 + 64 * 64 + 64 + 64 * 4 + 4)  # of the worker's model


@pytest.fixture(scope="module")
def worker_graph() -> Graph:
    """A step of the worker's model on two ranks: all gradients in one bucket."""
    sizes = tuple(Parameter(name, 4 * prod(shape), shape) for name, shape in MODEL.items())
    b = GraphBuilder(facts=Facts(world_size=2, parameters=sizes, buckets=(tuple(MODEL),)))
    group, instance = b.group("0", range(2), Axis.DATA), b.instance()
    for rank in range(2):
        main = b.lane(rank, "main")
        gloo = b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
        ready = [b.op("mm", main, 9, phase=Phase.BACKWARD, tensor=name) for name in MODEL]
        sent = b.op(
            "gloo:all_reduce", gloo, 99, kind=OpKind.COLLECTIVE,
            phase=Phase.COMMUNICATION, group=group, instance=instance, dtype=DType.FLOAT32,
            collective=Collective.ALL_REDUCE, size_bytes=sum(p.size_bytes for p in sizes),
        )  # fmt: skip
        for op in ready:
            b.link(op, sent, DepKind.GRADIENT)
        b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT)
        b.op("adam", main, 5, phase=Phase.UPDATE)
    return check(b.build())


@pytest.fixture(scope="module")
def products() -> Graph:
    """A step of a linear layer in bfloat16 on an H100: forward and both products of backward."""
    b = GraphBuilder(facts=Facts(world_size=1, gpus=(RecordedGpu("h100"),)))
    stream, work = b.lane(0, "stream", kind=LaneKind.STREAM), _LAYER
    for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.BACKWARD):
        b.op("gemm", stream, 250_000, phase=phase, dtype=work.dtype, flops=work.flops,
             size_bytes=work.size_bytes, work=Recorded("aten::mm", work))  # fmt: skip
    b.op("adam", stream, 50_000, phase=Phase.UPDATE)
    return check(b.build())


_LAYER = matrix(Matrix(1, 4096, 4096, 4096), DType.BFLOAT16)


@pytest.fixture(scope="module")
def cut_graph() -> Graph:
    """A step of the worker's model under FSDP2 on two ranks: three modules, each gathered once."""
    sizes = tuple(Parameter(name, 4 * prod(shape), shape) for name, shape in MODEL.items())
    b = GraphBuilder(facts=Facts(world_size=2, parameters=sizes))
    group = b.group("0", range(2), Axis.DATA)
    modules = [sizes[first : first + 2] for first in (0, 2, 4)]
    instances = {(kind, i): b.instance() for kind in ("gather", "scatter") for i in range(3)}
    for rank in range(2):
        main = b.lane(rank, "main")
        gloo = b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
        common = {"kind": OpKind.COLLECTIVE, "phase": Phase.COMMUNICATION, "group": group,
                  "dtype": DType.FLOAT32}  # fmt: skip
        for i, parameters in enumerate(modules):
            b.op("gloo:all_gather", gloo, 9, instance=instances["gather", i],
                 collective=Collective.ALL_GATHER,
                 size_bytes=sum(p.size_bytes for p in parameters), **common)  # fmt: skip
        for i, parameters in enumerate(modules):
            ready = [b.op("mm", main, 9, phase=Phase.BACKWARD, tensor=p.name) for p in parameters]
            sent = b.op("gloo:reduce_scatter", gloo, 99, instance=instances["scatter", i],
                        collective=Collective.REDUCE_SCATTER,
                        size_bytes=sum(p.size_bytes for p in parameters), **common)  # fmt: skip
            for op in ready:
                b.link(op, sent, DepKind.GRADIENT)
            b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT)
    return check(b.build())


@pytest.fixture(scope="module")
def images() -> Graph:
    """A convolution, a batch norm, a ReLU that keeps its result, and a mean of it."""
    b = GraphBuilder()
    thread = b.lane()
    for name in ("mkldnn_convolution", "native_batch_norm", "clamp_min", "mean"):
        op = b.op(f"aten::{name}", thread, 100, phase=Phase.FORWARD)
        if name == "clamp_min":
            b.allocate(op, 6400, MemoryCategory.ACTIVATIONS)
    for name in ("threshold_backward", "native_batch_norm_backward"):
        op = b.op(f"aten::{name}", thread, 100, phase=Phase.BACKWARD)
        if name == "threshold_backward":
            b.allocate(op, -6400, MemoryCategory.ACTIVATIONS)
    return b.build()


@pytest.fixture(scope="module")
def row_cut() -> Graph:
    """A product that two tensor-parallel workers add up."""
    b = GraphBuilder(facts=Facts(world_size=2))
    group, instance = b.group("0", (0, 1), Axis.TENSOR), b.instance()
    for rank in (0, 1):
        main, gloo = b.lane(rank, "main"), b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
        b.op("aten::addmm", main, 800, phase=Phase.FORWARD)
        for name in ("Redistribute", "_c10d_functional::all_reduce", "aten::copy_"):
            b.op(name, main, 40, phase=Phase.FORWARD)
        asked = b.op("c10d", main, kind=OpKind.HOST, phase=Phase.COMMUNICATION)
        sent = b.op(
            "gloo:all_reduce", gloo, 900, after=[asked], dep=DepKind.LAUNCH, group=group,
            kind=OpKind.COLLECTIVE, phase=Phase.COMMUNICATION, instance=instance,
            collective=Collective.ALL_REDUCE, dtype=DType.FLOAT32, size_bytes=6400,
        )  # fmt: skip
        b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT)
    return check(b.build())


@pytest.fixture(scope="module")
def worker_model() -> Graph:
    """The worker's three linear layers, drawn as a recording shows them."""
    b = GraphBuilder(facts=Facts(world_size=2, parameters=tuple(_parameters())))
    group, instance = b.group("0", (0, 1), Axis.DATA), b.instance()
    for rank in (0, 1):
        main, gloo = b.lane(rank, "main"), b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
        for layer in range(5):
            name = "aten::relu" if layer % 2 else "aten::linear"
            b.op(name, main, 300, phase=Phase.FORWARD, layer=str(layer))
        ready = []
        for parameter in reversed(list(_parameters())):
            b.op("mm", main, 200, phase=Phase.BACKWARD, layer=parameter.layer,
                 dtype=DType.FLOAT32, work=_product(parameter))  # fmt: skip
            ready.append(b.op("mul", main, 20, phase=Phase.BACKWARD, tensor=parameter.name))
        asked = b.op("c10d", main, kind=OpKind.HOST, phase=Phase.COMMUNICATION)
        sent = b.op(
            "gloo:all_reduce", gloo, 900, after=[asked], dep=DepKind.LAUNCH, group=group,
            kind=OpKind.COLLECTIVE, phase=Phase.COMMUNICATION, instance=instance,
            collective=Collective.ALL_REDUCE, dtype=DType.FLOAT32, size_bytes=MODEL_BYTES,
        )  # fmt: skip
        for op in ready:
            b.link(op, sent, DepKind.GRADIENT)
        b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT)
        b.op("copy", main, 40, phase=Phase.BACKWARD)
        b.op("sgd", main, 60, phase=Phase.UPDATE)
    return check(b.build())


def _product(parameter: Parameter) -> Recorded:
    """Of a layer's backward pass: that of its input stands before its bias's gradient."""
    outputs, inputs = MODEL[f"{parameter.layer}.weight"]
    weight = Matrix(1, outputs, inputs, ROWS), Matrix(1, ROWS, inputs, outputs)
    dims = weight[parameter.role is not Role.LINEAR_WEIGHT]
    return Recorded("aten::mm", matrix(dims, DType.FLOAT32))


def _parameters() -> Iterator[Parameter]:
    """As the model defines them."""
    for name, shape in reversed(MODEL.items()):
        role = Role.LINEAR_WEIGHT if len(shape) > 1 else Role.OTHER
        yield Parameter(name, 4 * prod(shape), shape, name.partition(".")[0], role)
