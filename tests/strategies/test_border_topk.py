"""Messages between stages that carry less: their bytes, what packs them, and jobs without any."""

import pytest

from paceline.graph import Axis, DepKind, Graph, GraphBuilder, LaneKind, OpKind, Phase, check
from paceline.graph.kinds import UNPRICED
from paceline.runtime.codecs import kept
from paceline.strategies import StrategyError, parse

WIDTH, SAMPLES = 10, 6
WHOLE = 4 * WIDTH * SAMPLES


def two_stages(axis: Axis = Axis.PIPELINE) -> Graph:
    """Stage 0 sends activations to stage 1 and gets their gradients."""
    b = GraphBuilder()
    group, down, up = b.group("0", range(2), axis), b.instance(), b.instance()
    kinds = {0: (OpKind.SEND, OpKind.RECV), 1: (OpKind.RECV, OpKind.SEND)}
    for rank in range(2):
        main = b.lane(rank, "main")
        lanes = [b.lane(rank, name, kind=LaneKind.COMM_THREAD) for name in ("down", "up")]
        for lane, kind, instance in zip(lanes, kinds[rank], (down, up)):
            made = b.op("mm", main, 10)
            moved = b.op("message", lane, 5, after=[made], dep=DepKind.LAUNCH, kind=kind,
                         phase=Phase.COMMUNICATION, group=group, instance=instance,
                         size_bytes=WHOLE)  # fmt: skip
            if kind is OpKind.RECV:
                b.op("wait", main, after=[moved], dep=DepKind.WAIT, kind=OpKind.WAIT)
    return check(b.build())


def test_activations_go_with_places_and_gradients_come_without() -> None:
    made = check(parse(f"border_topk(ratio=0.2, width={WIDTH})").transform(two_stages()))
    passing = SAMPLES * 2
    by_instance = dict(zip(made.ops.instance.tolist(), made.ops.size_bytes.tolist()))
    assert by_instance[0] == 64 + 8 * passing
    assert by_instance[1] == 4 * passing
    packing = [op for op in range(len(made)) if made.ops.dur_ns[op] == UNPRICED]
    names = sorted(made.names[made.ops.name[op]] for op in packing if made.ops.kind[op] == 0)
    verbs = ("pack back", "pack", "unpack back", "unpack")
    assert names == [f"{verb} border_topk" for verb in verbs]


def test_who_waited_for_a_message_waits_for_its_unpacking() -> None:
    made = parse("border_topk").transform(two_stages())
    for op in range(len(made)):
        if made.ops.kind[op] == OpKind.WAIT:
            sources = made.deps.src[made.deps.ptr[op] : made.deps.ptr[op + 1]]
            (source,) = {made.names[made.ops.name[src]] for src in sources}
            assert source == f"unpack{' back' if made.ops.rank[op] == 0 else ''} border_topk"


def test_without_stages_it_says_why_it_does_not_fit() -> None:
    refusal = parse("border_topk").refusal(two_stages(Axis.TENSOR))
    assert "sends no messages between pipeline stages" in str(refusal)
    wrong = parse("border_topk(width=7)").refusal(two_stages())
    assert "holds no samples of 7" in str(wrong)
    with pytest.raises(StrategyError, match="give a ratio above 0"):
        parse("border_topk(ratio=2.0)")


def test_both_sides_of_a_border_are_timed_and_price_what_a_graph_adds() -> None:
    pytest.importorskip("torch")
    from paceline.strategies.torch_border_times import border_times

    found = {op.name: op for op in border_times(2)}
    made = parse(f"border_topk(width={WIDTH})").transform(two_stages())
    unpriced = made.ops.name[(made.ops.dur_ns == UNPRICED) & (made.ops.kind == OpKind.COMPUTE)]
    assert {made.names[name] for name in unpriced.tolist()} == found.keys()
    assert all(time > 0 for op in found.values() for time in op.times_ns)
    pack, back = found["pack border_topk"], found["pack back border_topk"]
    assert pack.touched_bytes[-1] - back.touched_bytes[-1] == 64 + 4 * 64 * kept(4096, 0.2)
