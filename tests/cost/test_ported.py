"""Recorded kernels on another device keep their share of what their device achieves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import Device
from paceline.cluster.files import device
from paceline.cluster.recognised import recognised
from paceline.cost import CostError
from paceline.cost.achieved import achieved, rate_of, sheet
from paceline.cost.ported import (
    Kernels,
    fill,
    ported_ns,
    recorded_device,
    roof_ns,
    tail,
)
from paceline.graph import DType, Facts, Graph, GraphBuilder, LaneKind, RecordedGpu
from paceline.graph.work import (
    Attention,
    Elements,
    Family,
    Launch,
    Matrix,
    Recorded,
    attention,
    matrix,
    pointwise,
    unknown,
)

PRODUCT = matrix(Matrix(1, 8192, 8192, 8192), DType.BFLOAT16)
SUM = pointwise(Elements(2**26, 2), DType.BFLOAT16)
FULL = Launch(100_000, 256)


def one(recorded: Recorded, dur_ns: int, share: float = 1.0) -> Kernels:
    return Kernels(np.array([dur_ns]), np.array([0]), np.array([share]), [recorded])


def carried(recorded: Recorded, dur_ns: int, origin: str, target: str) -> float:
    return float(ported_ns(one(recorded, dur_ns), device(origin), device(target))[0])


def test_products_go_with_arithmetic_and_sums_with_memory() -> None:
    h100, mi300x = achieved(device("h100")), achieved(device("mi300x"))
    product = carried(Recorded("aten::mm", PRODUCT, FULL), 10**7, "h100", "mi300x")
    ratio = rate_of(h100, DType.BFLOAT16) / rate_of(mi300x, DType.BFLOAT16)
    assert product == pytest.approx(1e7 * ratio, rel=0.01)
    memory = h100.memory_bytes_per_s / mi300x.memory_bytes_per_s
    summed = carried(Recorded("aten::add", SUM, FULL), 10**7, "h100", "mi300x")
    assert summed == pytest.approx(1e7 * memory, rel=0.01)


def test_attention_goes_with_arithmetic_even_where_its_bytes_would_take_longer() -> None:
    work = attention(Attention(16, 16, 16, 64, 64, 64, 64), DType.BFLOAT16)
    for name in ("h100", "mi300x"):
        known = achieved(device(name))
        assert roof_ns(work, known) == pytest.approx(
            work.flops / known.flops_per_s[work.dtype] * 1e9
        )


def test_attention_of_few_blocks_goes_with_the_rate_of_one_processor() -> None:
    work = attention(Attention(1, 8, 8, 141, 141, 64, 64), DType.BFLOAT16)
    h100, mi300x = device("h100"), device("mi300x")
    took = carried(Recorded("aten::sdpa", work, Launch(16, 128)), 10**7, "h100", "mi300x")
    ones = [rate_of(achieved(on), DType.BFLOAT16) / on.units for on in (h100, mi300x)]
    assert took == pytest.approx(1e7 * ones[0] / ones[1], rel=0.01)


def test_a_kernel_of_next_to_nothing_takes_the_least_time_of_the_destination() -> None:
    tiny = Recorded("aten::add", pointwise(Elements(8), DType.FLOAT32), Launch(1, 128))
    least = achieved(device("h100")).least_ns
    took = carried(tiny, round(least), "h100", "mi300x")
    assert took == pytest.approx(achieved(device("mi300x")).least_ns)


def test_a_recording_that_shows_shorter_kernels_than_the_table_is_believed() -> None:
    tiny = Recorded("aten::add", pointwise(Elements(8), DType.FLOAT32), Launch(1, 128))
    h100, mi300x = device("h100"), device("mi300x")
    shown, least = 2000, achieved(h100).least_ns
    assert shown < achieved(mi300x).least_ns
    many = Kernels(np.full(10, shown), np.zeros(10, np.int64), np.ones(10), [tiny])
    assert ported_ns(many, mi300x, h100).tolist() == pytest.approx([least] * 10)
    few = Kernels(np.full(2, 3500), np.zeros(2, np.int64), np.ones(2), [tiny])
    assert (ported_ns(few, mi300x, h100) > least).all()


def test_kernels_of_one_call_pay_one_launch_together() -> None:
    told = Recorded("aten::mm", PRODUCT, FULL)
    origin, target = device("h100"), device("mi300x")
    whole = ported_ns(one(told, 10**6), origin, target)[0]
    parts = [ported_ns(one(told, t, t / 10**6), origin, target)[0] for t in (250_000, 750_000)]
    assert sum(parts) == pytest.approx(whole)


def test_a_kernel_of_unknown_work_goes_with_what_decides_in_its_family() -> None:
    work = Recorded("", unknown(Family.MATRIX, DType.BFLOAT16), FULL, inferred=True)
    known = Recorded("aten::mm", PRODUCT, FULL)
    assert carried(work, 10**7, "h100", "mi300x") == pytest.approx(
        carried(known, 10**7, "h100", "mi300x")
    )


@settings(deadline=None)  # the first example loads the constants
@given(st.integers(1, 10**9), st.integers(0, 10**5), st.sampled_from(["h100", "h200", "mi300x"]))
def test_on_its_own_device_a_kernel_keeps_its_time(dur: int, blocks: int, name: str) -> None:
    for work in (PRODUCT, SUM, unknown()):
        told = Recorded("", work, Launch(blocks, 128))
        least = achieved(device(name)).least_ns
        assert carried(told, dur, name, name) == pytest.approx(max(dur, least))


def test_a_type_that_a_device_has_not_runs_in_the_next_wider() -> None:
    v100 = achieved(device("v100"))
    assert rate_of(v100, DType.BFLOAT16) == v100.flops_per_s[DType.FLOAT16]
    a100 = achieved(device("a100-80"))
    assert rate_of(a100, DType.FLOAT8) == a100.flops_per_s[DType.BFLOAT16]
    assert rate_of(a100, DType.TFLOAT32) == a100.flops_per_s[DType.BFLOAT16] / 2


def test_a_last_wave_is_empty_where_blocks_do_not_fill_it() -> None:
    on = Device("d", units=10)
    assert tail(Launch(blocks=11, threads=2048), on) == pytest.approx(9 / 20)
    assert tail(Launch(blocks=20, threads=2048), on) == 0
    assert tail(Launch(), on) == 0
    assert fill(Family.MATRIX, Launch(5, 128), on) == 0.5


def test_a_device_is_recognised_by_its_drivers_name_and_number_of_processors() -> None:
    known = {
        "NVIDIA H100 80GB HBM3": (132, "h100"),
        "AMD Instinct MI300X VF": (304, "mi300x"),
        "NVIDIA A100-SXM4-80GB": (108, "a100-80"),
        "Tesla V100-SXM2-32GB": (80, "v100"),
        "Tesla V100-PCIE-32GB": (80, "v100-pcie-32"),
        "Tesla P100-PCIE-16GB": (56, "p100-pcie"),
        "NVIDIA A100-SXM4-40GB": (108, "a100-40"),
        "NVIDIA A100-PCIE-40GB": (108, "a100-pcie-40"),
        "NVIDIA A100 80GB PCIe": (108, "a100-pcie-80"),
        "NVIDIA H200": (132, "h200"),
        "NVIDIA B200": (148, "b200"),
        "NVIDIA GB200": (152, "gb200"),
        "NVIDIA B300 SXM6 AC": (148, "b300"),
        "NVIDIA GB300": (152, "gb300"),
        "NVIDIA L4": (58, "l4"),
        "NVIDIA L40S": (142, "l40s"),
        "Tesla T4": (40, "t4"),
        "AMD Instinct MI210": (104, "mi210"),
        "AMD Instinct MI100": (120, "mi100"),
    }
    for name, (units, meant) in known.items():
        found = recognised(RecordedGpu(name, units=units))
        assert found == device(meant)
    for other in (
        "NVIDIA H100 PCIe",
        "NVIDIA H200 NVL",
        "NVIDIA GB300-WS",
        "NVIDIA L40",
        "NVIDIA T4G",
    ):
        assert recognised(RecordedGpu(other)) is None
    assert recognised(RecordedGpu("NVIDIA A100-SXM4-40GB MIG 3g.20gb", units=42)) is None
    assert recognised(RecordedGpu("NVIDIA H100 80GB HBM3", units=64)) is None
    assert recognised(RecordedGpu("Frobnicator 9")) is None


def drawn(gpus: tuple[RecordedGpu, ...], dur_ns: int = 10**7) -> Graph:
    b = GraphBuilder(facts=Facts(world_size=1, gpus=gpus))
    stream = b.lane(name="stream 7", kind=LaneKind.STREAM)
    told = Recorded("aten::mm", PRODUCT, FULL)
    b.op("gemm", stream, dur_ns, flops=PRODUCT.flops, size_bytes=PRODUCT.size_bytes,
         dtype=DType.BFLOAT16, work=told)  # fmt: skip
    return b.build()


def test_a_device_of_no_preset_is_built_from_what_its_kernels_reached() -> None:
    found = recorded_device(drawn((RecordedGpu("Frobnicator 9", units=64),)))
    assert found.units == 64
    assert found.flops_per_s[DType.BFLOAT16] == pytest.approx(PRODUCT.flops / 1e-2)
    assert found.memory_bytes_per_s == pytest.approx(PRODUCT.size_bytes / 1e-2)
    assert "built from the recording" in found.source
    assert achieved(found).flops_per_s == found.flops_per_s  # reached is what it achieves
    assert achieved(found).memory_bytes_per_s == found.memory_bytes_per_s


def test_where_all_kernels_are_short_the_device_is_built_from_them_and_that_is_said() -> None:
    found = recorded_device(drawn((RecordedGpu("Frobnicator 9", units=64),), dur_ns=15_000))
    assert found.flops_per_s[DType.BFLOAT16] == pytest.approx(PRODUCT.flops / 15e-6)
    assert "all of them in less than 20 us" in found.source


def test_a_recording_that_names_no_device_asks_for_one() -> None:
    with pytest.raises(CostError, match="--recorded-device"):
        recorded_device(drawn(()))
    assert recorded_device(drawn(()), "a100-80") == device("a100-80")


def test_the_data_sheet_is_never_below_what_is_achieved() -> None:
    for name in ("a100-80", "h100", "h200", "b200", "mi300x", "l4"):
        on = device(name)
        made, told = achieved(on), sheet(on)
        assert made.memory_bytes_per_s < told.memory_bytes_per_s
        assert all(rate <= told.flops_per_s[kind] for kind, rate in made.flops_per_s.items())
