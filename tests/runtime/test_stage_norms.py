"""Clipping of gradients of which each worker of a pipeline has some."""

import pytest

from paceline.runtime.exchange import ExchangeError

torch = pytest.importorskip("torch")


def weights(*gradients: float) -> list[torch.Tensor]:
    made = [torch.nn.Parameter(torch.zeros(1)) for _ in gradients]
    for weight, gradient in zip(made, gradients):
        weight.grad = torch.tensor([gradient])
    return made


@pytest.mark.usefixtures("group_of_one")
@pytest.mark.parametrize(("order", "norm"), [(2.0, 5.0), (float("inf"), 4.0), (1.0, 7.0)])
def test_what_the_worker_holds_and_what_all_hold_is_one_norm(order: float, norm: float) -> None:
    from paceline.runtime.stages.torch_norms import norms_over

    mine, others = weights(3.0), weights(4.0)
    with norms_over(None, lambda: mine):
        found = torch.nn.utils.clip_grad_norm_([*mine, *others], 1.0, order)
    assert found.item() == pytest.approx(norm)
    assert mine[0].grad.item() == pytest.approx(3.0 / norm, rel=1e-4)


@pytest.mark.usefixtures("group_of_one")
def test_a_norm_that_is_not_finite_is_said_where_the_script_asks() -> None:
    from paceline.runtime.stages.torch_norms import norms_over

    mine = weights(float("nan"))
    with norms_over(None, lambda: mine), pytest.raises(RuntimeError, match="not finite"):
        torch.nn.utils.clip_grad_norm_(mine, 1.0, error_if_nonfinite=True)


def test_gradients_that_come_behind_the_update_cannot_be_clipped() -> None:
    from paceline.runtime.stages.torch_norms import never_clipped

    mine, others = weights(3.0), weights(4.0)
    with never_clipped(lambda: mine):
        assert torch.nn.utils.clip_grad_norm_(others, 1.0).item() == 4.0
        with pytest.raises(ExchangeError, match="clips its gradients"):
            torch.nn.utils.clip_grad_norm_(mine, 1.0)
    assert torch.nn.utils.clip_grad_norm_(mine, 1.0).item() == 3.0
