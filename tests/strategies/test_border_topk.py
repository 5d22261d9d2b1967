"""Messages between stages that carry less: their bytes, what packs them, and jobs without any."""

import pytest

from paceline.graph import Axis, DepKind, Graph, GraphBuilder, LaneKind, OpKind, Phase, check
from paceline.graph.kinds import UNPRICED
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
    assert names == ["pack border_topk"] * 2 + ["unpack border_topk"] * 2


def test_who_waited_for_a_message_waits_for_its_unpacking() -> None:
    made = parse("border_topk").transform(two_stages())
    for op in range(len(made)):
        if made.ops.kind[op] == OpKind.WAIT:
            sources = made.deps.src[made.deps.ptr[op] : made.deps.ptr[op + 1]]
            assert [made.names[made.ops.name[src]] for src in sources] == ["unpack border_topk"]


def test_without_stages_it_says_why_it_does_not_fit() -> None:
    refusal = parse("border_topk").refusal(two_stages(Axis.TENSOR))
    assert "sends no messages between pipeline stages" in str(refusal)
    wrong = parse("border_topk(width=7)").refusal(two_stages())
    assert "holds no samples of 7" in str(wrong)
    with pytest.raises(StrategyError, match="give a ratio above 0"):
        parse("border_topk(ratio=2.0)")
