"""The builder: what is drawn is what the graph holds."""

from paceline.graph import DepKind, GraphBuilder, OpKind


def test_a_drawn_graph_holds_its_ops_lanes_and_links() -> None:
    b = GraphBuilder()
    lane = b.lane(rank=3, name="stream 7")
    first = b.op("matmul", lane, 5)
    second = b.op("relu", lane, 2, after=[first])
    graph = b.build()
    assert [str(op) for op in graph] == [
        "op 0 'matmul' (rank 3, stream 7)",
        "op 1 'relu' (rank 3, stream 7)",
    ]
    assert graph[second].deps == (first,)
    assert graph[first].kind is OpKind.COMPUTE


def test_equal_links_are_kept_once() -> None:
    b = GraphBuilder()
    lane = b.lane()
    first, second = b.op("a", lane), b.op("b", lane)
    b.link(first, second, DepKind.LAUNCH)
    b.link(first, second, DepKind.DATA)
    deps = b.build().deps
    assert (len(deps), DepKind(deps.kind[0])) == (1, DepKind.LAUNCH)


def test_an_empty_graph_can_be_built() -> None:
    assert len(GraphBuilder().build()) == 0


def test_a_job_that_nothing_is_known_of_has_as_many_workers_as_the_graph_has_ranks() -> None:
    b = GraphBuilder()
    for rank in range(3):
        b.op("work", b.lane(rank), 1)
    assert b.build().world_size == 3
