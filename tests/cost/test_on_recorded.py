"""What a change adds to a recorded job of a GPU is priced on that GPU, without a cluster."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from paceline.cluster.files import device
from paceline.cost.forecast import forecast, sheet_of
from paceline.cost.on_recorded import priced_on_recorded
from paceline.graph import (
    UNPRICED,
    Basis,
    DepKind,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Phase,
    load_graph,
)
from paceline.graph.border import UNSCALED
from paceline.graph.facts import RecordedGpu
from paceline.graph.work import Recorded, moved, unknown
from paceline.predict import PredictError, Prediction, predict

KEPT = Path(__file__).parents[2] / "benchmarks" / "results" / "gpu" / "h200"
SIXTEEN, EIGHT = (f"compress_activations(bits={bits})" for bits in (16, 8))
COPY = moved(1 << 28, 1 << 28)


def job(*added: Recorded, gpu: str = "NVIDIA H200") -> Graph:
    """A call of 6 us that launches a kernel, and unpriced ones behind it."""
    gpus = (RecordedGpu(gpu),) if gpu else ()
    b = GraphBuilder(facts=Facts(world_size=1, gpus=gpus))
    main, stream = b.lane(0), b.lane(0, "stream 7", kind=LaneKind.STREAM)
    call = b.op("launch", main, 6_000, kind=OpKind.HOST, phase=Phase.FORWARD)
    b.op("kernel", stream, 50_000, after=[call], dep=DepKind.LAUNCH, phase=Phase.FORWARD)
    for each in added:
        asked = b.op("call", main, UNPRICED, kind=OpKind.HOST, scale_ppb=3 * UNSCALED)
        b.op("added", stream, UNPRICED, after=[asked], dep=DepKind.LAUNCH, work=each)
    return b.build()


def test_added_kernels_are_forecast_and_their_calls_take_what_recorded_ones_took() -> None:
    made = priced_on_recorded(job(Recorded("", COPY)))
    told = forecast([COPY], sheet_of(device("h200"))).dur_ns[0]
    assert made.ops.dur_ns.tolist() == [6_000, 50_000, 18_000, pytest.approx(told, abs=1)]
    assert made.ops.basis.tolist()[2:] == [Basis.RECORDED, Basis.FORECAST]


def test_on_a_gpu_that_the_job_was_carried_to_they_are_forecast_for_that_one() -> None:
    plain = job(Recorded("", COPY))
    there = replace(plain, facts=replace(plain.facts, carried_to="h100"))
    here, slower = (int(priced_on_recorded(one).ops.dur_ns[-1]) for one in (plain, there))
    assert slower > 1.3 * here


@pytest.mark.parametrize(
    "graph", [job(Recorded("", unknown())), job(Recorded("", COPY), gpu="")], ids=["work", "gpu"]
)
def test_what_nothing_is_known_of_stays_without_a_price(graph: Graph) -> None:
    assert priced_on_recorded(graph).ops.dur_ns[-1] == UNPRICED
    with pytest.raises(PredictError, match="give a cluster"):
        predict(graph)


@cache
def recorded() -> Graph:
    return load_graph(KEPT / "resnet50.float32.eager")


@cache
def changed(change: str) -> Prediction:
    return predict(recorded(), [change] if change else [])


@pytest.mark.parametrize(("change", "passes"), [(SIXTEEN, 3.0), (EIGHT, 12.5)])
def test_compressed_activations_of_a_recorded_gpu_take_passes_over_its_memory(
    change: str, passes: float
) -> None:
    """Where the device sets the pace: 1.5 times their bytes there and back in 16 bits, 11.25 and
    1.25 in 8. What is restored in 16 bits is cast, which is the processors' own rate."""
    plain, made = changed(""), changed(change)
    (held,) = recorded().facts.memory
    kept = sum(layer.float_bytes for layer in held.layers if layer.name)
    least_ns = passes * kept / device("h200").memory_bytes_per_s * 1e9
    longer_ns = made.step_ns - plain.step_ns
    assert 0.7 * least_ns < longer_ns < 2 * least_ns, "what a cache holds costs less"
    assert any("forecast" in line for line in made.rests_on)


def test_each_layer_s_pack_runs_behind_its_forward_kernels() -> None:
    graph = changed(SIXTEEN).timeline.graph
    packs, restores = (
        np.flatnonzero(graph.ops.name == graph.names.index(f"{each} activations 16 bits"))
        for each in ("pack", "unpack")
    )
    assert len(packs) == len(restores) > 300
    assert (graph.lanes.kind[graph.ops.lane[packs]] == LaneKind.STREAM).all()
    assert set(graph.ops.phase[packs]) == {Phase.FORWARD}
    assert set(graph.ops.phase[restores]) == {Phase.BACKWARD}
