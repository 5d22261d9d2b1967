"""Back ends on real gloo workers: every worker's parts are the interpreter's."""

import pytest

from paceline.weave.backends import backend
from paceline.weave.language import AllReduce, MatMul, program, tensor
from paceline.weave.layout import Group, Partial, Sliced
from paceline.weave.programs import adam, mlp
from paceline.weave.rules import WeaveError
from paceline.weave.transforms import applied, fuse, overlap

pytest.importorskip("torch", reason="back ends run torch")
TWO = Group.world(2)


@pytest.mark.live
@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_plain_and_chunked_workers_equal_the_interpreter(ranks, tmp_path, start_workers) -> None:
    start_workers("worker.py", ranks, tmp_path / "meeting")


def test_overlapped_linear_takes_only_linear_layers_in_a_group() -> None:
    import torch

    from paceline.weave.linear import Cut, overlapped_linear

    linear = torch.nn.Linear(2, 2)
    for layer, chunks, reason in (
        (torch.nn.ReLU(), 8, "got ReLU"),
        (linear, 0, "0 chunks"),
        (linear, 8, "init_process_group"),
    ):
        context = overlapped_linear(layer, Cut.INNER, chunks=chunks)
        with pytest.raises(WeaveError, match=reason):
            context.__enter__()


def test_chunked_gloo_refuses_what_it_cannot_overlap() -> None:
    chunked = backend("gloo")
    step = mlp(8, 4, TWO)
    assert "overlaps nothing" in str(chunked.refusal(step))
    assert chunked.refusal(applied(overlap(step, "product", "total"))) is None
    fused = applied(fuse(step, ("total", "add", "dropout")))
    assert "overlaps nothing" in str(chunked.refusal(fused))
    assert chunked.refusal(applied(overlap(fused, "product", "fused"))) is None
    beside = applied(fuse(step, ("add", "dropout")))
    pair = applied(overlap(beside, "product", "total"))
    assert "a kernel that no product overlaps" in str(chunked.refusal(pair))


def test_a_kernel_with_a_collective_that_has_no_rows_is_not_cut() -> None:
    x, weight = tensor("x", (8, 6), Sliced(1), TWO), tensor("weight", (6, 4), Sliced(0), TWO)
    bias = AllReduce(tensor("bias", (4,), Partial(), TWO), name="bias_sum")
    step = program("p", AllReduce(MatMul(x, weight, name="product"), name="total") + bias)
    pair = overlap(applied(fuse(step, ("bias_sum", "total", "add"))), "product", "fused")
    assert "bias_sum is not cut into rows" in str(backend("gloo").refusal(applied(pair)))


def test_an_unknown_back_end_is_named_with_those_there_are() -> None:
    with pytest.raises(WeaveError, match="there are cpu, triton, plain, gloo"):
        backend("magic")


def test_plain_torch_needs_a_process_group() -> None:
    from paceline.weave.backend import Peers

    with pytest.raises(WeaveError, match="init_process_group"):
        backend("plain").compile(adam(4, TWO), Peers(0, {}), {})
