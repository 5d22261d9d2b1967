"""`device`: recorded work carried over by two datasheets."""

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest

from paceline.cluster import Device
from paceline.cluster.files import device as preset
from paceline.cost.compute import peak
from paceline.graph import Basis, DType, Graph, LaneKind, OpKind, Phase
from paceline.graph.synthetic import MachineKind, TrainingJob, training
from paceline.strategies import StrategyError, parse
from paceline.strategies.device import device_factor

Recording = Callable[..., Graph]


def test_a_device_scales_between_its_memory_and_its_arithmetic() -> None:
    old = Device("old", memory_bytes_per_s=1e9, flops_per_s={DType.FLOAT32: 1e9})
    new = Device("new", memory_bytes_per_s=4e9, flops_per_s={DType.FLOAT32: 16e9})
    factor = device_factor(old, new, DType.FLOAT32)
    assert (factor.low, factor.middle, factor.high) == (1 / 16, 1 / 8, 1 / 4)


def test_a_device_without_a_memory_rate_is_refused() -> None:
    new = Device("new", memory_bytes_per_s=4e9, flops_per_s={DType.FLOAT32: 16e9})
    with pytest.raises(StrategyError, match="has no memory rate"):
        device_factor(Device("bare"), new, DType.FLOAT32)


def test_all_work_of_threads_is_carried_over_by_the_same_factor(recording: Recording) -> None:
    graph = recording()
    made = parse("device(name='h200', recorded='a100-80')").transform(graph)
    old, new = preset("a100-80"), preset("h200")
    memory = old.memory_bytes_per_s / new.memory_bytes_per_s
    factor = sqrt(memory * peak(old, DType.FLOAT32) / peak(new, DType.FLOAT32))
    work = graph.ops.phase == Phase.FORWARD
    assert made.ops.dur_ns[work].tolist() == np.rint(graph.ops.dur_ns[work] * factor).tolist()
    assert (made.ops.basis[work] == Basis.SCALED).all()
    talks = graph.ops.kind == OpKind.COLLECTIVE
    assert (made.ops.dur_ns[talks] == graph.ops.dur_ns[talks]).all()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("device(name='h200')", "carried from epyc-2c, taken for the recorded one; else give"),
        ("device(name='h200', recorded='epyc-2c')", "carried from epyc-2c by memory and"),
        ("device(name='epyc-2c')", "the job runs on epyc-2c already, taken for the recorded one"),
    ],
)
def test_it_says_which_processor_work_of_threads_is_taken_to_come_from(
    text: str, said: str, recording: Recording
) -> None:
    change = parse(text)
    assert said in " ".join(change.rests_on(change.transform(recording())))


def test_of_a_device_only_kernels_are_carried_over() -> None:
    graph = training(TrainingJob(machine=MachineKind.GPU))
    made = parse("device(name='h200', recorded='a100-80')").transform(graph)
    streams = graph.lanes.kind[graph.ops.lane] == LaneKind.STREAM
    kernels = streams & (graph.ops.kind == OpKind.COMPUTE)
    assert (made.ops.dur_ns[kernels] < graph.ops.dur_ns[kernels]).all()
    assert (made.ops.dur_ns[~kernels] == graph.ops.dur_ns[~kernels]).all()
