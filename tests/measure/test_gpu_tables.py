"""A GPU's measured kernels become tables, a data sheet and refined constants."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.cluster.files import device
from paceline.cost.forecast import forecast, load, sheet_of, shipped
from paceline.cost.forecast.sampled_works import works_in
from paceline.cost.forecast.tables import samples
from paceline.graph.facts import RecordedGpu
from paceline.graph.kinds import DType
from paceline.graph.work import Matrix, matrix
from paceline.measure import MeasureError
from paceline.measure.gpu_shapes import Shape, shapes
from paceline.measure.gpu_tables import Timed, write_tables
from paceline.measure.measured_gpu import CONSTANTS, measured_gpu

H100 = RecordedGpu("NVIDIA H100 80GB HBM3", 80 * 2**30, 132)
OWN = RecordedGpu("My Board", 16 * 2**30, 40)
PRODUCT = matrix(Matrix(1, 4096, 4096, 4096), DType.BFLOAT16)


def slower(folder: Path, factor: float) -> list[Timed]:
    """Every shape, taking so many times what is forecast for it on an H100."""
    once = [Timed(shape, 1.0) for shape in shapes()]
    write_tables(folder, H100, once)
    told = {
        (key.split(".")[0], row): float(ns)
        for key, (sample,) in samples(folder).items()
        for row, ns in enumerate(
            forecast(works_in(key, sample), sample.question.sheet).dur_ns.tolist()
        )
    }
    seen: dict[str, int] = {}

    def ms(shape: Shape) -> float:
        task = _TASKS.get(str(shape.cells.get("op", shape.table)), "pointwise")
        seen[task] = seen.get(task, -1) + 1
        return told[task, seen[task]] * factor / 1e6

    return [Timed(one.shape, ms(one.shape)) for one in once]


_TASKS = {
    "gemm": "linear", "bmm": "bmm", "attention": "attention", "softmax": "softmax", "ln": "norm",
    "conv": "convolution", "copy": "copy", "relaid": "relaid",
}  # fmt: skip


def test_every_shape_is_read_back_under_the_device_that_was_measured(tmp_path: Path) -> None:
    wanted = list(shapes())
    assert write_tables(tmp_path, H100, [Timed(shape, 0.5) for shape in wanted]) == "h100"
    found = samples(tmp_path)
    assert sum(len(sample) for taken in found.values() for sample in taken) == len(wanted)
    assert {key.split(".")[0] for key in found} == {*_TASKS.values(), "pointwise"}
    for (sample,) in found.values():
        assert sample.question.sheet == replace(sheet_of(device("h100")), name="h100")
        assert sample.question.dtype is DType.BFLOAT16


def test_a_gpu_that_no_preset_names_has_what_its_kernels_reached(tmp_path: Path) -> None:
    product = Shape("gemm", {"dtype": "bfloat16", "m": 4096, "n": 4096, "k": 4096})
    copied = Shape("vector", {"op": "add", "dtype": "bfloat16", "b": 1 << 18, "k": 1024})
    told = [Timed(product, 1.0), Timed(copied, 4.0)]
    assert write_tables(tmp_path, OWN, told) == "My Board"
    (sample,) = samples(tmp_path)["linear.bfloat16.nvidia"]
    sheet = sample.question.sheet
    assert sheet.peak(DType.BFLOAT16) == pytest.approx(2 * 4096**3 * 1e3, rel=1e-3)
    assert sheet.memory_bytes_per_s == pytest.approx(6 * (1 << 28) / 4e-3, rel=1e-3)
    assert sheet.units == 40


def test_a_copy_tells_the_memory_s_rate_too(tmp_path: Path) -> None:
    product = Shape("gemm", {"dtype": "bfloat16", "m": 4096, "n": 4096, "k": 4096})
    cells = {"dtype": "bfloat16", "b": 1 << 18, "k": 1024}
    told = [Timed(product, 1.0)]
    told += [Timed(Shape("vector", {"op": op, **cells}), 4.0) for op in ("copy", "relaid")]
    write_tables(tmp_path, OWN, told)
    (sample,) = samples(tmp_path)["copy.bfloat16.nvidia"]
    assert sample.question.sheet.memory_bytes_per_s == pytest.approx(4 * (1 << 28) / 4e-3, rel=1e-3)


def test_an_unknown_gpu_of_which_nothing_large_was_measured_is_refused(tmp_path: Path) -> None:
    small = Shape("vector", {"op": "softmax", "dtype": "bfloat16", "b": 128, "k": 1024})
    with pytest.raises(MeasureError, match="no preset is a My Board"):
        write_tables(tmp_path, OWN, [Timed(small, 0.1)])


def test_measuring_refines_the_forecasts_of_that_device(tmp_path: Path) -> None:
    told = measured_gpu(tmp_path / "here", H100, slower(tmp_path / "draft", 1.25), 7_000.0)
    assert all(row.after < 0.01 < row.before for row in told)
    made = load(tmp_path / "here" / CONSTANTS).over(shipped())
    sheet = sheet_of(device("h100"))
    plain, refined = (float(forecast([PRODUCT], sheet, one).dur_ns[0]) for one in (None, made))
    assert refined == pytest.approx(1.25 * plain, rel=1e-2)
    assert "kernels measured on this h100" in made.source
    assert made.call_ns == {"h100": 7_000.0}


@pytest.mark.needs("torch")
def test_without_a_gpu_measuring_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    assert main(["measure", "--gpu", str(tmp_path)]) == 1
    assert "torch sees no GPU here" in capsys.readouterr().err


@pytest.mark.needs("torch")
def test_what_a_profiler_saw_on_a_device_is_found_by_its_kind() -> None:
    """By the processor's, which every machine has; a GPU's kernels are found likewise."""
    import torch

    from paceline.measure.torch_kernels import seen_us

    kinds = torch.autograd.DeviceType
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.ones(1000).exp()
    assert seen_us(profile, kinds.CPU) > 0
    assert seen_us(profile, kinds.CUDA) == 0


def smallest() -> Iterator[Shape]:
    """One of each operator."""
    seen = set()
    for shape in shapes():
        name = shape.cells.get("op", shape.table)
        if name not in seen:
            seen.add(name)
            yield shape


@pytest.mark.needs("torch")
def test_each_operator_that_is_measured_runs(tmp_path: Path) -> None:
    from paceline.measure.torch_kernels import cpu_bench, timed

    small = [
        replace(shape, cells={**shape.cells, **_LESS.get(shape.table, {})}) for shape in smallest()
    ]
    found = list(timed(cpu_bench(), small))
    assert [one.shape for one in found] == small
    assert all(one.ms > 0 for one in found)
    told = measured_gpu(tmp_path, H100, found)
    assert len(told) == 9


@pytest.mark.needs("torch")
def test_a_copy_that_changes_the_layout_reads_across_rows_and_writes_along_them() -> None:
    import torch

    from paceline.measure.torch_kernels import Bench, timed

    seen: list[torch.Tensor] = []

    def clock(run: Callable[[], object]) -> float:
        made = run()
        assert isinstance(made, torch.Tensor)
        seen.append(made)
        return 1.0

    wanted = [Shape("vector", {"op": op, "dtype": "bfloat16", "b": 4, "k": 128})
              for op in ("copy", "relaid")]  # fmt: skip
    list(timed(Bench(torch.device("cpu"), clock), wanted))
    plain, changed = seen
    assert plain.shape == (4, 128)
    assert changed.shape == (2, 4, 64)
    assert changed.is_contiguous()


@pytest.mark.needs("torch")
def test_calls_of_a_host_are_counted_with_their_views() -> None:
    import torch

    from paceline.measure import torch_host

    with torch.no_grad():
        data = torch.zeros(1, 16, 128)
        (block,) = {torch_host._calls(torch_host._Block().eval(), data) for _ in range(2)}
    assert block >= 9, "norm, two products, chunk, gelu, product, sum, and their views"
    assert torch_host.call_ns(torch.device("cpu")) > 0


_LESS = {
    "gemm": {"m": 64, "n": 64, "k": 64},
    "matrix": {"b": 2, "m": 32, "n": 32, "k": 32},
    "attention": {"s": 32},
    "convolution": {"b": 1, "input_size": 16},
}
