"""Every refusal of every transformation, and what the rewritten programs look like."""

import pytest

from paceline.graph import DType
from paceline.weave import ops
from paceline.weave.language import (
    AllGather,
    AllReduce,
    MatMul,
    ReduceAll,
    ReduceScatter,
    Send,
    Sqrt,
    Tensor,
    Update,
    program,
    tensor,
)
from paceline.weave.layout import Group, Layout, Partial, Replicated, Sliced
from paceline.weave.ops import Role
from paceline.weave.program import Program
from paceline.weave.programs import adam, hand_over, lamb, mlp, sliced_hand_over
from paceline.weave.rules import WeaveError
from paceline.weave.transforms import (
    Refusal,
    SplitInto,
    applied,
    between,
    dead,
    fuse,
    overlap,
    p2p,
    reorder,
    slice_state,
    split,
)

TWO, NEXT = Group.world(2), Group((2, 3), "next")


def make(name: str, layout: Layout | None = None, *shape: int, role: Role = Role.DATA) -> Tensor:
    return tensor(name, shape or (6,), layout or Replicated(), TWO, role=role)


def rs_c_ag() -> Program:
    return applied(reorder(applied(split(adam(10, TWO), "sum_g")), "sum_g"))


def sliced_adam() -> Program:
    return applied(slice_state(rs_c_ag(), "m", "v"))


def refused(result: Program | Refusal, reason: str) -> None:
    assert isinstance(result, Refusal), "it was applied"
    assert not result
    assert reason in result.reason


def gathered() -> tuple[Tensor, Tensor]:
    x = make("x", Sliced(0))
    return x, AllGather(x, name="whole")


# split


def test_split_keeps_the_name_for_its_last_half() -> None:
    step = applied(split(adam(10, TWO), "sum_g"))
    assert isinstance(step["sum_g"].op, ops.AllGather)
    assert isinstance(step[step["sum_g"].args[0]].op, ops.ReduceScatter)
    other = applied(split(adam(10, TWO), "sum_g", SplitInto.REDUCE_BROADCAST, root=1))
    assert other["sum_g"].op == ops.Broadcast(1)


def test_split_refuses_what_is_no_all_reduce() -> None:
    refused(split(adam(10, TWO), "div"), "only an AllReduce")


def test_split_refuses_a_number_and_a_missing_dim() -> None:
    step = program("p", AllReduce(make("x", Partial(), 6), name="sum"))
    refused(split(step, "sum", dim=1), "no dim 1")
    number = program("p", AllReduce(tensor("n", (), Partial(), TWO), name="sum"))
    refused(split(number, "sum"), "no dim 0")


def test_split_refuses_a_missing_root() -> None:
    refused(split(adam(10, TWO), "sum_g", SplitInto.REDUCE_BROADCAST, root=2), "root 2")


def test_split_refuses_what_is_fused() -> None:
    refused(split(applied(fuse(adam(10, TWO))), "sum_g"), "fused into")


# reorder


def test_reorder_puts_adam_on_slices_and_gathers_what_is_stored() -> None:
    step = rs_c_ag()
    assert len(step.find(ops.AllGather)) == 3
    assert step[step["w1"].args[1]].op == ops.AllGather()
    assert not [s for s in step if s.name == "sum_g"]


def test_reorder_gives_a_norm_its_fix_up_across_ranks() -> None:
    step = applied(reorder(applied(split(lamb((4, 6), TWO), "sum_g")), "sum_g"))
    for name in step.find(ops.Reduce):
        assert step[name].type.layout == Partial()
        assert isinstance(step.readers(name)[0].op, ops.AllReduce)


def test_reorder_refuses_what_is_no_all_gather() -> None:
    refused(reorder(adam(10, TWO), "sum_g"), "must be an AllGather")


def test_reorder_refuses_when_nothing_can_move() -> None:
    _, whole = gathered()
    refused(reorder(program("p", whole), "whole"), "no computation")


def test_reorder_refuses_a_member_that_does_not_depend_on_the_gather() -> None:
    _, whole = gathered()
    other = Sqrt(make("y"))
    refused(reorder(program("p", whole + other), "whole", ("sqrt",)), "does not depend")


def test_reorder_refuses_a_missing_middle_op() -> None:
    _, whole = gathered()
    step = program("p", Sqrt(whole * 2.0))
    refused(reorder(step, "whole", ("sqrt",)), "mul stands between whole and sqrt")


def test_reorder_refuses_an_op_that_is_not_slice_invariant() -> None:
    x, w = make("x", Sliced(1), 4, 6), make("w", Replicated(), 6, 3)
    step = program("p", MatMul(AllGather(x, name="whole"), w, name="product"))
    refused(reorder(step, "whole", ("product",)), "product")
    sent = program("p", Send(AllGather(make("y", Sliced(0)), name="whole"), NEXT, name="sent"))
    refused(reorder(sent, "whole", ("sent",)), "not slice-invariant")


def test_reorder_moves_a_product_whose_rows_are_sliced() -> None:
    x, w = make("x", Sliced(0), 5, 6), make("w", Replicated(), 6, 3)
    step = program("p", MatMul(AllGather(x, name="whole"), w, name="product"))
    moved = applied(reorder(step, "whole", ("product",)))
    assert moved["product_s"].type.layout == Sliced(0)


def test_reorder_refuses_a_partial_operand() -> None:
    _, whole = gathered()
    step = program("p", AllReduce(make("g", Partial()) * whole))
    refused(reorder(step, "whole", ("mul",)), "g, which is Partial")


def test_reorder_refuses_to_mix_layouts() -> None:
    row = AllGather(make("r", Sliced(0), 4), name="row")
    table = make("t", Sliced(0), 6, 4)
    step = program("p", table * row)
    refused(reorder(step, "row", ("mul",)), "sliced along dims [0, 1]")


def test_reorder_refuses_what_is_fused() -> None:
    step = applied(fuse(applied(split(adam(10, TWO), "sum_g"))))
    refused(reorder(step, "sum_g"), "fused into")


# slice


def test_slice_shards_state_and_drops_its_gathers() -> None:
    step = sliced_adam()
    assert step["m"].type.layout == step["m1"].type.layout == Sliced(0)
    assert len(step.find(ops.AllGather)) == 1
    assert step.find(ops.Slice) == ("w_s",)


@pytest.mark.parametrize(
    ("name", "reason"), [("w", "no state input"), ("g", "no state input"), ("mul_add", "no state")]
)
def test_slice_refuses_what_is_no_state(name, reason) -> None:
    refused(slice_state(rs_c_ag(), name), reason)


def test_slice_refuses_no_names_and_whole_reads() -> None:
    refused(slice_state(rs_c_ag()), "no tensor was named")
    refused(slice_state(adam(10, TWO), "m"), "reads the whole of m")


def test_slice_refuses_state_that_is_sliced_already() -> None:
    refused(slice_state(sliced_adam(), "m"), "only Replicated")


def test_slice_refuses_state_whose_new_value_is_read_whole() -> None:
    m, x = make("m", role=Role.STATE), make("x", Sliced(0))
    step = program("p", Update(m, AllGather(x), name="m1") * 2.0)
    refused(slice_state(step, "m"), "reads the whole new m")


def test_slice_refuses_state_that_is_stored_from_no_gather() -> None:
    m = make("m", role=Role.STATE)
    refused(slice_state(program("p", Update(m, make("x"), name="m1")), "m"), "no AllGather")


def test_slice_refuses_state_that_nobody_reads() -> None:
    m = make("m", role=Role.STATE)
    lonely = applied(dead(program("p", Sqrt(make("x")), m), "m"))
    refused(slice_state(lonely, "m"), "never read")


def test_slice_refuses_a_fused_program() -> None:
    refused(slice_state(applied(fuse(rs_c_ag())), "m"), "already fused")


# dead


def test_dead_drops_an_output_and_what_only_it_needed() -> None:
    step = applied(dead(adam(10, TWO), "w1"))
    assert step.outputs == ("m1", "v1")
    assert not step.find(ops.Unary)
    assert "w" in step


def test_dead_refuses_what_is_no_output_the_last_and_nothing() -> None:
    refused(dead(adam(10, TWO), "div"), "no output")
    refused(dead(adam(10, TWO), "w1", "m1", "v1"), "nothing of adam")
    refused(dead(adam(10, TWO)), "is needed")


# p2p


def test_p2p_sends_slices() -> None:
    written = hand_over(6, 4, TWO, NEXT, dtype=DType.FLOAT32)
    step = sliced_hand_over(written)
    (sent,) = step.find(ops.Send)
    assert step[sent].type.layout == Sliced(0)
    assert step["handed"].op == ops.AllGather()
    assert step["handed"].type.group == NEXT


def test_p2p_reduces_before_it_sends() -> None:
    x = make("x", Partial())
    step = program("p", ReduceScatter(Send(x, NEXT, name="sent"), name="part"))
    moved = applied(p2p(step, "sent"))
    assert moved["part"].op == ops.Send(NEXT)
    assert moved["part"].type == step["part"].type


def test_p2p_refuses_what_it_cannot_move() -> None:
    step = hand_over(6, 4, TWO, NEXT, dtype=DType.FLOAT32)
    refused(p2p(step, "total"), "only a Send")
    refused(p2p(step, "handed"), "needs an AllGather as its operand")
    sent = Send(make("x", Partial()), NEXT, name="sent")
    refused(p2p(program("p", ReduceScatter(sent), sent), "sent"), "also returned")


def test_p2p_refuses_what_is_fused() -> None:
    reordered = applied(split(hand_over(6, 4, TWO, NEXT, dtype=DType.FLOAT32), "total"))
    moved = applied(reorder(reordered, "total"))
    names = tuple(s.name for s in moved if not s.is_source and s.name != "handed")
    refused(p2p(applied(fuse(moved, names)), "handed"), "fused into")


# fuse


def test_fuse_makes_one_launch_with_collectives_at_its_border() -> None:
    step = applied(fuse(sliced_adam()))
    (launch,) = step.launches()
    assert [c.op.word for c in launch.collectives] == ["reduce_scatter", "all_gather"]
    assert {s.name for s in launch.updates} == {"w1", "m1", "v1"}
    assert launch.outputs == ()


def test_fuse_takes_what_between_names() -> None:
    step = sliced_adam()
    (scatter,) = step.find(ops.ReduceScatter)
    inside = between(step, scatter, "w1")
    assert "pow" in inside
    assert "m1" not in inside
    fused = applied(fuse(step, inside))
    assert next(x.name for x in fused.launches()) == "fused"


def test_fuse_refuses_less_than_two_and_inputs() -> None:
    refused(fuse(adam(10, TWO), ("div",)), "nothing to fuse")
    refused(fuse(adam(10, TWO), ("g", "div")), "is an input")


def test_fuse_refuses_a_missing_middle_op() -> None:
    step = program("p", Sqrt(make("x") * 2.0 + 1.0))
    refused(fuse(step, ("mul", "sqrt")), "add stands between members")


def test_fuse_refuses_a_cycle_through_another_kernel() -> None:
    a, b = make("a"), make("b")
    p, q = a * 2.0, b - 1.0
    step = program("p", Sqrt(q), p + 1.0)
    first = applied(fuse(step, ("mul", "sqrt"), name="one"))
    assert isinstance(fuse(first, ("sub", "add"), name="two"), Refusal)
    refused(fuse(first, ("sub", "add"), name="two"), "a cycle")


def test_fuse_refuses_what_no_kernel_holds() -> None:
    refused(fuse(mlp(6, 4, TWO)), "overlap it instead")
    step = hand_over(6, 4, TWO, NEXT, dtype=DType.FLOAT32)
    refused(fuse(step), "cannot hold handed")


def test_fuse_refuses_mixed_layouts() -> None:
    step = program("p", Sqrt(make("x", Sliced(0))), Sqrt(make("y", Sliced(0), 8)))
    refused(fuse(step, ("sqrt", "sqrt_2")), "mixed layouts")


def test_fuse_refuses_arithmetic_on_partial_results() -> None:
    product = MatMul(make("x", Sliced(1), 4, 6), make("w", Sliced(0), 6, 3))
    step = program("p", AllReduce(product * 2.0, name="sum"))
    refused(fuse(step, ("mul", "sum")), "Partial parts")


def test_fuse_refuses_two_groups() -> None:
    other = tensor("y", (6,), Replicated(), NEXT)
    step = program("p", Sqrt(make("x")), Sqrt(other))
    refused(fuse(step, ("sqrt", "sqrt_2")), "one group")


def test_fuse_refuses_twice_and_a_taken_name() -> None:
    once = applied(fuse(sliced_adam(), ("mul_s", "mul_2_s", "mul_add_2_s")))
    refused(fuse(once, ("mul_add_2_s", "v1")), "fused into fused")
    refused(fuse(once, ("mul_3_s", "div_4_s")), "is taken")


# overlap


def test_overlap_cuts_a_product_and_its_all_reduce_by_rows() -> None:
    step = applied(overlap(mlp(8, 4, TWO), "product", "total", chunks=4))
    assert step.overlaps[0].chunks == 4


def test_overlap_refuses_what_is_no_pair() -> None:
    step = mlp(8, 4, TWO)
    refused(overlap(step, "nothing", "total"), "no launch")
    refused(overlap(step, "total", "product"), "itself communication")
    refused(overlap(step, "product", "add"), "moves nothing")
    lone = program("p", AllReduce(make("g", Partial()), name="sum"), Sqrt(make("x")))
    refused(overlap(lone, "sqrt", "sum"), "does not read")


def test_overlap_refuses_cuts_that_change_the_result() -> None:
    step = mlp(8, 4, TWO)
    refused(overlap(step, "product", "total", dim=2), "no dim 2")
    refused(overlap(step, "product", "total", dim=1), "cut along rows")
    refused(overlap(step, "product", "total", chunks=9), "9 chunks of 8 rows")
    refused(overlap(step, "product", "total", chunks=1), "1 chunks")
    refused(overlap(applied(split(step, "total")), "product", "total_part"), "sliced along dim 0")
    reduced = program("p", AllReduce(ReduceAll(make("x", Sliced(0))), name="sum"))
    refused(overlap(reduced, "sum_2", "sum"), "needs its whole operand")


def test_overlap_refuses_a_second_time() -> None:
    step = applied(overlap(mlp(8, 4, TWO), "product", "total"))
    refused(overlap(step, "product", "total"), "already overlapped")


def test_overlap_refuses_a_cycle() -> None:
    x, w = make("x", Sliced(1), 4, 6), make("w", Sliced(0), 6, 3)
    product = MatMul(x, w, name="product")
    late = Sqrt(make("y", Replicated(), 4, 3))
    total = AllReduce(product, name="total")
    step = program("p", total * late)
    fused = applied(fuse(step, ("total", "mul")))
    refused(overlap(fused, "product", "fused"), "a cycle")


def test_applied_raises_the_refusal() -> None:
    with pytest.raises(WeaveError, match="split refused"):
        applied(split(adam(10, TWO), "div"))
