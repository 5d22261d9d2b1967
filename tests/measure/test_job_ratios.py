"""A recorded job's own operators, made anew and timed in other variants."""

import json
from pathlib import Path

import pytest

from paceline.engine import native
from paceline.graph.variants import Variant
from paceline.measure import MeasureError
from paceline.measure.pairs import TimedPair, ratio_of
from paceline.measure.recorded_calls import OperatorCall, RecordedCalls, recorded_calls
from paceline.record import sidecar

FLOAT = ("float", "float", "float", "Scalar", "Scalar")
LINEAR = OperatorCall(
    "aten::addmm", FLOAT, ((256,), (64, 128), (128, 256), (), ()),
    ((1,), (128, 1), (1, 128), (), ()), ("", "", "", "1", "1"),
)  # fmt: skip
RELU = OperatorCall(
    "aten::clamp_min", ("float", "Scalar"), ((64, 256), ()), ((256, 1), ()), ("", "0")
)
GRADIENT = OperatorCall(
    "aten::mm", ("float", "float"), ((256, 64), (64, 128)), ((1, 256), (128, 1)), ("", ""), True
)


def event(name: str, ts: float, dur: float, **args: object) -> dict[str, object]:
    return {"ph": "X", "cat": "cpu_op", "tid": 1, "name": name, "ts": ts, "dur": dur, "args": args}


def recording(folder: Path, *events: dict[str, object]) -> Path:
    (folder / sidecar.detail_name(0)).write_text(json.dumps({"traceEvents": events}))
    told = (
        sidecar.RecordedHost(rank=0, world_size=1, threads=1),
        sidecar.Parameter(index=0, name="w", elements=5000),
        sidecar.Optimizer("SGD", {"lr": 0.1, "momentum": 0.9, "fused": None}),
    )
    (folder / sidecar.facts_name(0)).write_bytes(b"".join(map(sidecar.encode, told)))
    return folder


def test_only_the_models_own_work_is_read_outermost_first(tmp_path: Path) -> None:
    found = recorded_calls(
        recording(
            tmp_path,
            event("aten::linear", 0, 10),
            event("aten::addmm", 1, 8),
            event("aten::mm", 2, 3),  # inside addmm, and part of it
            event("autograd::engine::evaluate_function: AddmmBackward0", 20, 10),
            event("aten::mm", 21, 8),
            event("Optimizer.step#SGD.step", 40, 10),
            event("aten::add_", 41, 2),
        )
    )
    assert [(c.operator, c.backward) for c in found.calls] == [
        ("aten::addmm", False),
        ("aten::mm", True),
    ]
    assert found.parameter_sizes == (5000,)
    assert found.optimizer is not None
    assert found.optimizer.settings["momentum"] == 0.9


def test_a_folder_without_shapes_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match="paceline record -o"):
        recorded_calls(tmp_path)


def test_a_ratio_is_of_all_calls_as_often_as_a_step_makes_them() -> None:
    pairs = [TimedPair((100,) * 5, (50,) * 5, count=3), TimedPair((100,) * 5, (300,) * 5, count=1)]
    found = ratio_of("aten::mm", Variant.BF16, pairs)
    assert (found.value, found.low, found.high) == (450 / 400,) * 3


def test_the_interval_holds_the_ratio() -> None:
    found = ratio_of("aten::mm", Variant.BF16, [TimedPair((10, 12, 14, 30), (5, 9, 9, 40))])
    assert found.low <= found.value <= found.high


def test_a_call_is_made_anew_as_it_was_recorded() -> None:
    torch = pytest.importorskip("torch")
    from paceline.measure.torch_calls import runnable

    made = runnable(LINEAR)
    assert made is not None
    assert made.arguments[2].stride() == (1, 128)
    assert made().shape == (64, 256)
    relu = runnable(RELU)
    assert relu is not None
    assert torch.equal(relu(), relu.arguments[0].clamp_min(0))


def test_a_call_of_which_too_little_is_told_is_left_out() -> None:
    pytest.importorskip("torch")
    from paceline.measure.torch_calls import runnable

    assert runnable(OperatorCall("aten::mm", ("float",), ((2, 2),), ((2, 1),), ())) is None
    lists = OperatorCall("aten::mm", ("TensorList", ""), ((), ()), ((), ()), ("", ""))
    assert runnable(lists) is None


def test_autocast_casts_weights_and_inputs_once_and_gradients_back() -> None:
    torch = pytest.importorskip("torch")
    from paceline.measure.torch_calls import runnable
    from paceline.measure.torch_precision import Autocast

    types, made = Autocast(), []
    for call in (LINEAR, RELU, GRADIENT):
        plain = runnable(call)
        assert plain is not None
        made.append(types.lowered(call, plain))
    linear, relu, gradient = made
    assert linear.cast == {0, 1, 2}
    assert linear().dtype is torch.bfloat16
    assert relu().dtype is torch.bfloat16
    assert gradient.restored == {0}
    assert [v.dtype for v in gradient()] == [torch.float32]


def test_a_jobs_ratios_are_of_its_own_operators_and_its_optimizer() -> None:
    pytest.importorskip("torch")
    from paceline.measure.torch_ratios import job_ratios

    optimizer = sidecar.Optimizer("Adam", {"lr": 0.1, "betas": [0.9, 0.99], "fused": None})
    job = RecordedCalls((LINEAR, RELU, GRADIENT), 1, optimizer, (5000, 300))
    found = {(ratio.operator, ratio.variant) for ratio in job_ratios(job)}
    assert {("aten::addmm", Variant.BF16), ("Adam", Variant.FUSED)} <= found
    assert ("aten::clamp_min", Variant.IN_PLACE) in found
    assert {("aten::addmm", Variant.MERGED), ("aten::mm", Variant.MERGED)} <= found
    assert not {variant for _, variant in found} & {Variant.CHANNELS_LAST, Variant.COMPILED}
    assert all(ratio.low <= ratio.value <= ratio.high for ratio in job_ratios(job))


@pytest.mark.skipif(native() is None, reason="no native core was built")
def test_batch_norms_are_timed_with_their_relus_by_the_kernel_that_trains() -> None:
    torch = pytest.importorskip("torch")
    from paceline.measure.torch_norms import restructured

    image, channel = (4, 8, 6, 6), (8,)
    strides = (288, 36, 6, 1), (1,)
    norm = OperatorCall(
        "aten::native_batch_norm",
        (*("float",) * 5, "Scalar", "Scalar", "Scalar"),
        (image, channel, channel, channel, channel, (), (), ()),
        (strides[0], *(strides[1],) * 4, (), (), ()),
        (*("",) * 5, "True", "0.1", "1e-05"),
    )
    ((call, count, plain, changed),) = restructured(RecordedCalls((norm, RELU), 1, None, ()))
    assert (call, count) == (norm, 1)
    assert plain()[0].shape == changed().shape == image
    assert not (changed() < 0).any()
    assert torch.get_num_threads() >= 1


def test_layers_are_timed_beside_the_same_of_circulant_blocks_in_both_passes() -> None:
    torch = pytest.importorskip("torch")
    from paceline.strategies.torch_circulant_times import circulant

    image = OperatorCall(
        "aten::mkldnn_convolution",
        ("float", "float", "", "ScalarList", "ScalarList", "ScalarList", "Scalar"),
        ((2, 16, 9, 9), (24, 16, 3, 3), (), (), (), (), ()),
        ((1296, 81, 9, 1), (144, 9, 3, 1), (), (), (), (), ()),
        ("", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"),
    )
    odd = OperatorCall(
        "aten::mm", ("float", "float"), ((4, 12), (12, 16)), ((12, 1), (1, 12)), ("", "")
    )
    job = RecordedCalls((LINEAR, LINEAR, RELU, GRADIENT, image, odd), 1, None, ())
    with torch.no_grad():
        found = {
            call.operator: (count, plain(), made()) for call, count, plain, made in circulant(job)
        }
    assert list(found) == ["Linear", "Linear backward", "Conv2d", "Conv2d backward"]
    assert [found["Linear"][0], found["Conv2d"][0]] == [2, 1]
    shapes = {
        name: (dense.shape, made.shape)
        for name, (_, dense, made) in found.items()
        if " " not in name
    }
    assert shapes == {"Linear": ((64, 256),) * 2, "Conv2d": ((2, 24, 5, 5),) * 2}
    _, dense, made = found["Linear backward"]
    assert [each.shape for each in dense] == [(64, 128), (256, 128), (256,)]
    assert sum(each.numel() for each in made) == 64 * 128 + 256 * 128 // 8 + 256


def test_three_products_of_one_input_are_timed_as_one() -> None:
    torch = pytest.importorskip("torch")
    from paceline.measure.torch_merged import merged

    job = RecordedCalls((LINEAR, RELU, GRADIENT), 1, None, ())
    for call, _, plain, changed in merged(job):
        assert call in (LINEAR, GRADIENT)
        side_by_side = torch.cat(plain(), 1 if call is LINEAR else 0)
        assert torch.allclose(side_by_side, changed(), rtol=1e-4, atol=1e-4)
