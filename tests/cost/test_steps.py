"""Described steps on GPUs that nobody measured: what is exchanged beside the backward pass."""

from dataclasses import replace

import pytest

from paceline.cluster.files import device
from paceline.cost.forecast import sheet_of
from paceline.cost.forecast.steps import step_forecast
from paceline.graph.kinds import Collective, DType
from paceline.graph.work import Matrix, matrix
from paceline.imagine.language.parallel import GpuStep, RepeatedCollective

SHEET = sheet_of(device("h100"))
PRODUCT = matrix(Matrix(1, 4096, 4096, 4096), DType.BFLOAT16)


@pytest.mark.parametrize("size_bytes", [1e6, 1e9])
def test_gradients_that_travel_beside_the_backward_pass_hide_but_for_the_last(
    size_bytes: float,
) -> None:
    sent = (RepeatedCollective(Collective.ALL_REDUCE, size_bytes),)
    behind = GpuStep((PRODUCT,), (PRODUCT,) * 4, exchanged_back=sent)
    alone = step_forecast(replace(behind, exchanged_back=()), SHEET, 8).backward_ns
    only = step_forecast(replace(behind, backward=()), SHEET, 8).backward_ns
    whole, beside = (step_forecast(one, SHEET, 8) for one in (behind, replace(behind, beside=True)))
    assert whole.backward_ns == pytest.approx(alone + only)
    assert max(alone, only) < beside.backward_ns < max(alone, only) + min(alone, only) / 2
    assert beside.forward_ns == whole.forward_ns
