"""How near kernels come to their device."""

import io

import pytest
from rich.console import Console

from paceline.analyse.efficiency import summarise_efficiency
from paceline.cluster.files import device
from paceline.graph import DepKind, DType, Facts, GraphBuilder, LaneKind, OpKind, RecordedGpu
from paceline.graph.work import Elements, Launch, Matrix, Recorded, matrix, pointwise
from paceline.replay import Timeline, replay
from paceline.report.text.efficiency import show_efficiency
from paceline.report.text.quantities import duration

PRODUCT = matrix(Matrix(1, 4096, 4096, 4096), DType.BFLOAT16)
SUM = pointwise(Elements(2**24, 2), DType.BFLOAT16)


def drawn() -> Timeline:
    """A product at half the H100's rate, then a sum that is launched 30 us after it ended, and a
    kernel of which nothing is known."""
    gpu = RecordedGpu("NVIDIA H100 80GB HBM3", units=132)
    b = GraphBuilder(facts=Facts(world_size=1, gpus=(gpu,)))
    host = b.lane(name="main thread")
    stream = b.lane(name="stream 7", kind=LaneKind.STREAM)
    took = round(2 * PRODUCT.flops / 989.4e12 * 1e9)
    first = b.op("launch", host, 1000, kind=OpKind.HOST)
    told = Recorded("aten::mm", PRODUCT, Launch(133, 2048))
    b.op("gemm", stream, took, after=[first], dep=DepKind.LAUNCH, flops=PRODUCT.flops,
         size_bytes=PRODUCT.size_bytes, dtype=DType.BFLOAT16, work=told)  # fmt: skip
    second = b.op("launch", host, took + 30_000, after=[first], kind=OpKind.HOST)
    summed = Recorded("aten::add", SUM, Launch(10**6, 128), inferred=True)
    b.op("sum", stream, 50_000, after=[second], dep=DepKind.LAUNCH, flops=SUM.flops,
         size_bytes=SUM.size_bytes, dtype=DType.BFLOAT16, work=summed)  # fmt: skip
    b.op("mystery", stream, 10_000)
    return replay(b.build())


def test_each_class_has_its_rates_and_its_share_of_the_roofline() -> None:
    found = summarise_efficiency(drawn())
    by_name = {row.name: row for row in found.classes}
    product = by_name["matrix"]
    assert product.of_roofline == pytest.approx(0.5, rel=0.01)
    assert product.flops_per_s == pytest.approx(989.4e12 / 2, rel=0.01)
    assert product.of_peak == pytest.approx(0.5, rel=0.01)
    assert product.tail == pytest.approx(131 / 264)
    assert by_name["pointwise"].inferred == 1
    assert by_name["other"].known == 0
    assert found.device == "h100"
    assert 0 < found.known < 1


def test_kernels_of_unknown_work_are_named_with_their_share_of_the_time() -> None:
    timeline = drawn()
    found = summarise_efficiency(timeline)
    whole = sum(row.took_ns for row in found.classes)
    assert dict(found.unknown) == {"mystery": pytest.approx(10_000 / whole)}
    assert not found.imagined


def test_the_worst_offender_is_what_loses_most_above_its_roofline() -> None:
    worst = summarise_efficiency(drawn()).worst
    assert worst[0].name.startswith("mm: b 1 m 4,096")
    assert worst[0].lost_ns >= worst[1].lost_ns


def test_a_gap_that_a_late_launch_left_is_launch_bound() -> None:
    gaps = summarise_efficiency(drawn()).gaps
    assert gaps.idle_ns == gaps.launch_bound_ns == 30_000


def test_utilisation_is_the_products_arithmetic_over_the_step() -> None:
    timeline = drawn()
    found = summarise_efficiency(timeline)
    step = float(timeline.end_ns.max()) / 1e9
    assert found.utilisation == pytest.approx(PRODUCT.flops / step / 989.4e12)
    assert found.utilisation_type == "bfloat16"


def test_kernels_beside_communication_are_held_against_the_same_kernels_alone() -> None:
    gpu = RecordedGpu("NVIDIA H100 80GB HBM3", units=132)
    b = GraphBuilder(facts=Facts(world_size=1, gpus=(gpu,)))
    stream, other = (b.lane(name=f"stream {n}", kind=LaneKind.STREAM) for n in (7, 8))
    told = Recorded("aten::add", SUM, Launch(10**6, 128))
    slow = b.op("sum", stream, 60_000, work=told)
    b.op("all_reduce", other, 60_000, kind=OpKind.COLLECTIVE)
    b.op("sum", stream, 50_000, after=[slow], work=told)
    beside = summarise_efficiency(replay(b.build())).beside
    assert (beside.factor, beside.kernels) == (pytest.approx(1.2), 1)


def test_the_terminal_shows_device_classes_and_how_to_know_more() -> None:
    out = io.StringIO()
    show_efficiency(summarise_efficiency(drawn()), Console(file=out, width=160))
    shown = out.getvalue()
    assert "device: h100" in shown
    assert "record_shapes=True" in shown
    assert "mm: b 1" in shown


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_a_narrow_terminal_cuts_no_number(width: int) -> None:
    out = io.StringIO()
    found = summarise_efficiency(drawn())
    show_efficiency(found, Console(file=out, width=width))
    shown = out.getvalue()
    assert "…" not in shown
    for row in (*found.classes, *found.worst):
        assert all(word in shown.split() for word in row.name.split())
        assert duration(row.took_ns) in shown
        assert not row.of_roofline or f"{100 * row.of_roofline:.0f} %" in shown
    tables = [line for line in shown.split("by class")[1].splitlines() if "%" in line]
    assert all(len(line) <= width for line in tables)


def test_columns_that_a_terminal_has_no_room_for_are_named() -> None:
    narrow, wide = io.StringIO(), io.StringIO()
    found = summarise_efficiency(drawn())
    show_efficiency(found, Console(file=narrow, width=80))
    show_efficiency(found, Console(file=wide, width=120))
    assert "no room for tail, kernels" in narrow.getvalue()
    assert "no room" not in wide.getvalue()
    assert "tail" in wide.getvalue()


def test_work_that_a_named_device_has_no_time_for_is_not_believed() -> None:
    found = summarise_efficiency(drawn(), device("a100-40"))
    by_name = {row.name: row for row in found.classes}
    assert (by_name["matrix"].known, by_name["matrix"].of_roofline) == (0, 0)
    assert found.utilisation == 0
    assert found.beyond == pytest.approx(by_name["matrix"].share)
    out = io.StringIO()
    show_efficiency(found, Console(file=out, width=160))
    assert "shapes tell more than a100-40 can do in 82.2 % of the kernels' time" in out.getvalue()
