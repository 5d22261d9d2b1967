"""Operators of a recorded job on half of their samples, and sums of weights' gradients."""

from dataclasses import replace

import pytest

from paceline.measure.recorded_calls import OperatorCall, RecordedCalls

torch = pytest.importorskip("torch")

LINEAR = OperatorCall(
    "aten::addmm", ("float", "float", "float", "Scalar", "Scalar"),
    ((256,), (64, 128), (128, 256), (), ()), ((1,), (128, 1), (1, 128), (), ()),
    ("", "", "", "1", "1"),
)  # fmt: skip
OF_INPUT = OperatorCall(
    "aten::mm", ("float", "float"), ((64, 256), (256, 128)), ((256, 1), (128, 1)), ("", ""), True
)
OF_WEIGHT = replace(OF_INPUT, dims=((256, 64), (64, 128)), strides=((1, 256), (128, 1)))
SUM = OperatorCall("aten::add_", ("float", "float", "Scalar"), ((4,), (4,), ()), ((1,), (1,), ()),
                   ("", "", "1"))  # fmt: skip


def recorded(*calls: OperatorCall) -> RecordedCalls:
    return RecordedCalls(calls, 1, None, ())


@pytest.mark.parametrize(
    ("call", "whole", "half"),
    [
        (LINEAR, (64, 256), (32, 256)),
        (OF_INPUT, (64, 128), (32, 128)),
        (OF_WEIGHT, (256, 128), (256, 128)),  # fewer samples are multiplied, none are left out
    ],
)
def test_a_call_on_half_of_the_samples(
    call: OperatorCall, whole: tuple[int, ...], half: tuple[int, ...]
) -> None:
    from paceline.measure.torch_halves import halved

    ((told, count, plain, changed),) = halved(recorded(call, call))
    assert (told, count) == (call, 2)
    assert tuple(plain().shape) == whole
    assert tuple(changed().shape) == half


def test_half_of_a_weights_gradient_is_of_the_first_half_of_the_samples() -> None:
    from paceline.measure.torch_halves import halved

    ((_, _, plain, changed),) = halved(recorded(OF_WEIGHT))
    gradient, given = plain.arguments
    assert torch.allclose(changed(), gradient[:, :32] @ given[:32])


def test_what_holds_no_samples_in_front_is_left_out() -> None:
    from paceline.measure.torch_halves import halved

    assert not list(halved(recorded(SUM)))


def test_only_a_weights_gradient_is_added_to_another() -> None:
    from paceline.measure.torch_halves import added

    ((told, _, plain, adding),) = added(recorded(LINEAR, OF_INPUT, OF_WEIGHT))
    assert told is OF_WEIGHT
    once = adding().clone()
    assert torch.allclose(once, plain())
    assert torch.allclose(adding(), 2 * plain())
