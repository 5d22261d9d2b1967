"""The language: typed when written, gathered into a frozen program."""

from dataclasses import FrozenInstanceError

import pytest

from paceline.graph import DType
from paceline.weave.language import (
    AllGather,
    AllReduce,
    AllToAll,
    Broadcast,
    Dropout,
    Ite,
    MatMul,
    MulAdd,
    Norm,
    ReduceAll,
    ReduceScatter,
    ReduceTo,
    Repeat,
    Send,
    Slice,
    Sqrt,
    Tensor,
    Update,
    program,
    scalar,
    tensor,
)
from paceline.weave.layout import (
    Group,
    Layout,
    Partial,
    Reduction,
    Replicated,
    Sliced,
    slice_bounds,
)
from paceline.weave.ops import AllReduce as AllReduceOp
from paceline.weave.programs.adam import adam
from paceline.weave.rules import WeaveError

TWO = Group.world(2)


def make(layout: Layout, *shape: int, dtype: DType = DType.FLOAT32) -> Tensor:
    return tensor("x", shape or (6, 4), layout, TWO, dtype=dtype)


def test_adam_is_typed_and_walks_in_order() -> None:
    step = adam(10, TWO)
    assert [s.name for s in step.inputs] == ["g", "w", "m", "v", "lr", "t"]
    assert [s.name for s in step.updates] == ["m1", "v1", "w1"]
    assert step.returns == ()
    assert step.find(AllReduceOp) == ("sum_g",)
    assert step["sum_g"].type.layout == Replicated()
    assert step["div"].args[0] == "sum_g"


def test_a_program_is_a_frozen_value() -> None:
    step = adam(10, TWO)
    with pytest.raises(FrozenInstanceError):
        step.name = "other"
    assert hash(step) == hash(step)


def test_slices_are_cut_as_torch_chunks_them() -> None:
    assert [slice_bounds(10, 4, i) for i in range(4)] == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert [slice_bounds(2, 4, i) for i in range(4)] == [(0, 1), (1, 2), (2, 2), (2, 2)]


@pytest.mark.parametrize(
    ("write", "part"),
    [
        (lambda: make(Partial()) + make(Replicated()), "Partial"),
        (lambda: make(Partial()) * make(Partial()), "Partial"),
        (lambda: 1.0 / make(Partial()), "Partial"),
        (lambda: Sqrt(make(Partial())), "Partial"),
        (lambda: make(Partial(Reduction.MAX)) * 2.0, "Partial"),
        (lambda: make(Sliced(0)) + make(Replicated()), "mixed layouts"),
        (lambda: make(Sliced(0)) + make(Sliced(1)), "AllToAll"),
        (lambda: make(Replicated(), 3) + make(Replicated(), 4), "do not fit"),
        (lambda: make(Replicated()) + make(Replicated(), dtype=DType.FLOAT16), "Cast one"),
        (lambda: AllReduce(make(Replicated())), "already combined"),
        (lambda: AllReduce(make(Partial()), Reduction.MAX), "with max"),
        (lambda: ReduceScatter(make(Sliced(0))), "already combined"),
        (lambda: ReduceScatter(make(Partial()), 2), "no dim 2"),
        (lambda: AllGather(make(Replicated())), "needs Sliced"),
        (lambda: AllToAll(make(Sliced(0)), 0), "another dim"),
        (lambda: Broadcast(make(Partial())), "Reduce to it"),
        (lambda: Broadcast(ReduceTo(make(Partial()), 1), 0), "Reduce to it"),
        (lambda: ReduceTo(make(Partial()), 2), "root 2"),
        (lambda: Slice(make(Sliced(0))), "needs Replicated"),
        (lambda: Send(make(Replicated()), TWO), "another group"),
        (lambda: Send(make(Replicated()), Group((2, 3, 4))), "another group"),
        (lambda: Dropout(make(Partial()), 0.5, 1), "Partial"),
        (lambda: Dropout(make(Replicated()), 1.0, 1), "0 <= p < 1"),
        (lambda: Ite(make(Replicated()), 1.0, 2.0), "condition of BOOL"),
        (lambda: MulAdd(2.0, make(Partial()), make(Partial())), "Partial"),
        (lambda: MulAdd(make(Replicated()), make(Sliced(0)), 1.0), "mixed layouts"),
        (lambda: MatMul(make(Replicated()), make(Replicated())), "A[..., K]"),
        (lambda: MatMul(make(Sliced(1)), make(Replicated(), 4, 3)), "allowed are"),
        (lambda: ReduceAll(make(Partial())), "Partial"),
        (lambda: ReduceAll(make(Replicated()), dim=2), "dim 2"),
        (lambda: Norm(make(Replicated(), 5), segments=(2, 2)), "add up"),
        (lambda: Repeat(make(Replicated(), 5), (2, 2)), "one a segment"),
        (lambda: Update(make(Replicated()), make(Sliced(0))), "layouts differ"),
        (lambda: Update(make(Replicated()) + 1, make(Replicated())), "only inputs"),
        (lambda: make(Replicated()) + tensor("y", (6, 4), Replicated(), Group((2, 3))), "Send"),
        (lambda: make(Replicated()) + "one", "neither a tensor"),
        (lambda: make(Replicated(), dtype=DType.INT8), "allowed"),
        (lambda: make(Sliced(3)), "no dim 3"),
    ],
)
def test_a_wrong_layout_is_an_error_at_the_line_that_wrote_it(write, part) -> None:
    with pytest.raises(WeaveError) as caught:
        write()
    assert part in str(caught.value)
    assert str(caught.value).startswith("test_program.py:")
    assert "`" in str(caught.value)


def test_what_a_sum_over_ranks_lets_through_stays_partial() -> None:
    g = make(Partial())
    assert (-(g + g - g) * 3.0 / scalar("s", TWO)).type.layout == Partial()
    assert (2.0 * g).type.layout == Partial()


def test_matmul_types_follow_the_sharded_products_of_tensor_parallelism() -> None:
    rows, columns = make(Sliced(0), 4, 3), make(Sliced(1), 4, 3)
    assert MatMul(make(Sliced(1)), rows).type.layout == Partial()
    assert MatMul(make(Replicated()), columns).type.layout == Sliced(1)
    assert MatMul(make(Sliced(0)), make(Replicated(), 4, 3)).type.layout == Sliced(0)


def test_a_bias_meets_slices_along_other_dims_as_it_is() -> None:
    assert (make(Sliced(0)) + make(Replicated(), 4)).type.layout == Sliced(0)
    assert (make(Sliced(1)) + make(Sliced(0), 4)).type.layout == Sliced(1)


def test_a_reduction_over_slices_is_partial_and_norm_joins_it() -> None:
    x = make(Sliced(0))
    assert ReduceAll(x).type.layout == Partial(Reduction.SUM)
    assert ReduceAll(x, dim=1).type.layout == Sliced(0)
    assert ReduceAll(x, dim=0).type.shape == (1, 4)
    assert Norm(x).type.layout == Replicated()


def test_a_number_takes_the_type_of_the_tensor_it_meets() -> None:
    half = make(Replicated(), dtype=DType.FLOAT16)
    assert (half * scalar("lr", TWO) + 1.0).type.dtype is DType.FLOAT16
    assert Norm(half).type.dtype is DType.FLOAT32


def test_reading_an_overwritten_input_is_an_error() -> None:
    w = make(Replicated())
    updated = Update(w, w * 2.0)
    late = w + 1.0
    with pytest.raises(WeaveError, match="has overwritten; read that Update's result"):
        program("stale", updated, late)


def test_two_buffers_of_one_name_are_refused() -> None:
    with pytest.raises(WeaveError, match="used twice"):
        program("twice", make(Replicated()) + make(Replicated()))


def test_a_tensor_has_no_truth_value_and_a_program_needs_outputs() -> None:
    with pytest.raises(WeaveError, match="write Ite"):
        bool(make(Replicated()) > 0.0)
    with pytest.raises(WeaveError, match="returns nothing"):
        program("empty")


def test_a_launch_shows_what_goes_in_and_what_must_stay() -> None:
    step = adam(10, TWO)
    launch = next(x for x in step.launches() if x.name == "m1")
    assert [s.name for s in launch.inputs] == ["m", "mul_add"]
    assert [s.name for s in launch.updates] == ["m1"]
    assert launch.outputs == ()
    assert [c.name for c in step.launches()[0].collectives] == ["sum_g"]
