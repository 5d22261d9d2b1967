"""A layer of other weights: its work, its gradients, what goes by their bytes.

Two ranks: two linear layers of 8 x 4 and 4 x 8, whose gradients are copied to a bucket in 10 ns
each, reduced, copied back in 40 ns and updated in 80.
"""

import numpy as np
import pytest

from paceline.errors import GraphError
from paceline.graph import (
    Axis,
    Basis,
    Collective,
    DepKind,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Parameter,
    Phase,
    Role,
    check,
)
from paceline.graph.bucket_limits import DDP_FIRST, DDP_OTHERS, BucketLimits, limits_of
from paceline.graph.remodel import Factor, NewLayer, passes_on, remodelled

FIRST = Parameter("a.weight", 128, (8, 4), "a", Role.LINEAR_WEIGHT)
SECOND = Parameter("b.weight", 128, (4, 8), "b", Role.LINEAR_WEIGHT)


@pytest.fixture
def graph() -> Graph:
    b = GraphBuilder(facts=Facts(world_size=2, parameters=(FIRST, SECOND)))
    group, instance = b.group("0", (0, 1), Axis.DATA), b.instance()
    for rank in (0, 1):
        main, gloo = b.lane(rank), b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
        for layer in "ab":
            b.op("addmm", main, 100, phase=Phase.FORWARD, layer=layer)
        ready = []
        for layer, took in (("b", 200), ("a", 100)):
            b.op("mm", main, took, phase=Phase.BACKWARD, layer=layer)
            ready.append(b.op("mul", main, 10, phase=Phase.BACKWARD, tensor=f"{layer}.weight"))
        sent = b.op("all_reduce", gloo, 50, kind=OpKind.COLLECTIVE, group=group, instance=instance,
                    collective=Collective.ALL_REDUCE, size_bytes=256)  # fmt: skip
        for op in ready:
            b.link(op, sent, DepKind.GRADIENT)
        b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT)
        b.op("copy", main, 40, phase=Phase.BACKWARD)
        b.op("sgd", main, 80, phase=Phase.UPDATE)
    return check(b.build())


def told(graph: Graph) -> list[tuple[str, str, int]]:
    """Name, gradient and duration of what rank 0's thread does."""
    return [(op.name, op.tensor, op.dur_ns) for op in graph if op.rank == 0 and op.lane == 0]


def test_a_quarter_of_the_weights_takes_its_share_of_everything(graph: Graph) -> None:
    made = check(remodelled(graph, [NewLayer(SECOND, (Factor((1, 8), 0.5),))]))
    assert told(made) == [
        ("addmm", "", 100), ("addmm", "", 50), ("mm", "", 100), ("mul", "b.weight", 2),
        ("mm", "", 100), ("mul", "a.weight", 10), ("wait", "", 0), ("copy", "", 25),
        ("sgd", "", 50),
    ]  # fmt: skip
    assert made.facts.gradient_bytes() == {"a.weight": 128, "b.weight": 32}


def test_factors_ready_their_gradients_one_after_the_other(graph: Graph) -> None:
    """The last first: a product for its weights and one for what it passes on, 100 ns each."""
    factors = (Factor((8, 8), 2.0), Factor((4, 8), 1.0))
    made = check(remodelled(graph, [NewLayer(SECOND, factors)]))
    assert told(made)[1:5] == [
        ("addmm", "", 300),
        ("mm", "b.weight.1", 210),
        ("mm", "", 400),
        ("mul", "b.weight", 20),
    ]
    assert made.facts.gradient_bytes()["b.weight.1"] == 128


def test_a_first_layer_multiplies_only_for_its_own_weights(graph: Graph) -> None:
    """Its one backward product takes 100 ns; a factor behind it has two."""
    factors = (Factor((4, 4), 0.5), Factor((8, 4), 1.0))
    made = check(remodelled(graph, [NewLayer(FIRST, factors)]))
    assert told(made)[4:6] == [("mm", "a.weight.1", 210), ("mm", "", 50)]
    assert passes_on(graph, SECOND)
    assert not passes_on(graph, FIRST)


def test_what_was_reckoned_says_so(graph: Graph) -> None:
    made = remodelled(graph, [NewLayer(SECOND, (Factor((1, 8), 0.5),))])
    rows = made.ops.layer == made.names.index("b")
    assert (made.ops.basis[rows] == Basis.ARITHMETIC).all()
    assert (made.ops.basis[~rows] == Basis.RECORDED).all()


def test_a_layer_that_no_op_belongs_to_is_refused(graph: Graph) -> None:
    other = Parameter("c.weight", 4, (1, 1), "c", Role.LINEAR_WEIGHT)
    with pytest.raises(GraphError, match=r"which ops belong to c\.weight"):
        remodelled(graph, [NewLayer(other, (Factor((1, 1), 1.0),))])


MIB = 1 << 20


def test_ddps_own_limits_are_taken_where_the_buckets_allow_them() -> None:
    assert limits_of([MIB, 8 * MIB, 20 * MIB, MIB], [MIB, 28 * MIB, MIB]) == BucketLimits(
        DDP_FIRST, DDP_OTHERS
    )


def test_other_limits_are_those_that_the_buckets_reached() -> None:
    assert limits_of([100] * 5, [200, 200, 100]) == BucketLimits(200, 200)


def test_a_job_of_one_bucket_has_a_limit_above_what_it_held() -> None:
    assert limits_of([2 * MIB, 2 * MIB], [4 * MIB]) == BucketLimits(DDP_OTHERS, DDP_OTHERS)
    assert limits_of([100, 100], [200]) == BucketLimits(DDP_FIRST, DDP_OTHERS)


def test_limits_cut_the_buckets_that_they_were_read_from() -> None:
    from paceline.strategies.buckets import Buckets, buckets_of

    random = np.random.default_rng(3)
    for _ in range(200):
        sizes = random.integers(1, 9, random.integers(1, 12)).tolist()
        first, others = (int(x) for x in random.integers(1, 20, 2))
        cut = buckets_of(range(len(sizes)), sizes, Buckets(others, first))
        held = [sum(sizes[i] for i in bucket) for bucket in cut]
        found = limits_of(sizes, held)
        assert buckets_of(range(len(sizes)), sizes, Buckets(found.others, found.first)) == cut
