"""The codecs' arithmetic by hand, and the law of error feedback: sent and left was given."""

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from paceline.graph.buckets import Bucket  # noqa: E402
from paceline.runtime.codecs import Codec, Compressor, Iterative, Momentum, Turn  # noqa: E402
from paceline.runtime.codecs.sketching import SketchLayout  # noqa: E402
from paceline.runtime.codecs.torch_dgc import SampledTopK  # noqa: E402
from paceline.runtime.codecs.torch_low_rank import LowRank  # noqa: E402
from paceline.runtime.codecs.torch_memory import LocalMomentum, memory_of  # noqa: E402
from paceline.runtime.codecs.torch_sketch import Sketch  # noqa: E402
from paceline.runtime.codecs.torch_sparse import Layerwise  # noqa: E402
from paceline.runtime.codecs.torch_topk import TopK, TopKByBucket  # noqa: E402
from paceline.runtime.exchange import ExchangeError  # noqa: E402
from paceline.runtime.torch_momentum import taken_over  # noqa: E402
from paceline.strategies import StrategyError, kind_of, known, parse  # noqa: E402
from paceline.strategies.adaptive_topk import shares  # noqa: E402
from paceline.strategies.coded import Coded  # noqa: E402

SHAPES = ((3, 4), (5,), (12, 9))
CODECS = [name for name in known() if issubclass(kind_of(name), Coded)]
CHOOSING = ("topk", "threshold", "random_block", "dgc")
IN_ROUNDS = ("powersgd", "count_sketch")
SPARSE = [f"{name}(ratio=0.2, layerwise={wise})" for name in CHOOSING for wise in (False, True)]


def drawn(count: int, seed: int) -> "torch.Tensor":
    return torch.randn(count, generator=torch.Generator().manual_seed(seed))


def meant(codec: Codec, payload: "torch.Tensor", count: int, turn: Turn) -> "torch.Tensor":
    """What a payload stands for."""
    assert isinstance(codec.compressor, Compressor)
    total = torch.zeros(count)
    codec.compressor.add(total, payload, turn)
    return total


@pytest.mark.parametrize("text", [*(n for n in CODECS if n not in IN_ROUNDS), *SPARSE])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1000), steps=st.integers(1, 4))
def test_what_is_sent_and_what_is_left_are_the_gradient_and_what_was_left(
    text: str, seed: int, steps: int
) -> None:
    change = parse(text)
    assert isinstance(change, Coded)
    codec, count = change.codec(), Bucket(SHAPES).count
    if not codec.feedback:
        return
    assert isinstance(codec.compressor, Compressor)
    memory, given_, sent = memory_of(codec, 1), torch.zeros(count), torch.zeros(count)
    for step in range(steps):
        turn, gradient = Turn(0, step, SHAPES), drawn(count, seed + step)
        corrected = memory.corrected((1,), gradient.clone())
        payload = codec.compressor.compress(corrected, turn)
        memory.sent(corrected, payload, codec.compressor, turn)
        given_ += gradient
        sent += meant(codec, payload, count, turn)
        assert torch.allclose(sent + corrected, given_, atol=1e-4)


def test_top_k_sends_the_largest_with_their_places() -> None:
    payload = TopK(0.4).compress(torch.tensor([1.0, -5.0, 2.0, 0.5, 3.0]), Turn(0, 0))
    places, values = payload.chunk(2)
    found = dict(zip(places.tolist(), values.view(torch.float32).tolist()))
    assert found == {1: -5.0, 4: 3.0}


def test_a_threshold_far_below_the_largest_is_found_anew_among_those_above() -> None:
    from paceline.runtime.codecs.torch_threshold import Threshold

    codec, count = Threshold(ratio=0.1, every=1000), 50
    codec.compress(torch.linspace(0, 1, count), Turn(0, 0, ((count,),)))
    grown = torch.linspace(1, 2, count)  # all are above now
    places = codec.compress(grown, Turn(0, 1, ((count,),)))[:5]
    assert sorted(places.tolist()) == [45, 46, 47, 48, 49]
    few = torch.where(grown > 1.95, grown, 0.5)
    values = codec.compress(few, Turn(0, 2, ((count,),)))[5:].view(torch.float32)
    assert sorted(values[values != 0].tolist()) == sorted(few[few > 1.95].tolist())


def test_layerwise_each_parameter_sends_its_share() -> None:
    values, turn = torch.tensor([9.0, 8.0, 7.0, 0.1, 0.2, 0.3]), Turn(0, 0, ((3,), (3,)))
    whole, each = TopK(1 / 3), Layerwise(TopK(1 / 3))
    found = torch.zeros(6)
    each.add(found, each.compress(values, turn), turn)
    assert torch.equal(found, torch.tensor([9.0, 0, 0, 0, 0, 0.3]))
    whole.restore(found, whole.compress(values, turn), turn)
    assert torch.equal(found, torch.tensor([9.0, 8.0, 0, 0, 0, 0]))


def test_momentum_is_corrected_before_compression_and_masked_where_it_was_sent() -> None:
    memory, how = LocalMomentum(Momentum(0.5), True, 1), TopK(0.5)
    first = memory.corrected((1,), torch.tensor([4.0, 1.0]))
    assert torch.equal(first, torch.tensor([4.0, 1.0]))
    memory.sent(first, how.compress(first, Turn(0, 0)), how, Turn(0, 0))
    second = memory.corrected((1,), torch.tensor([1.0, 1.0]))
    # u = (0 * 0.5 + 1, 1 * 0.5 + 1), what waits = (0 + 1, 1 + 1.5)
    assert torch.equal(second, torch.tensor([1.0, 2.5]))


def test_unmasked_momentum_stays_where_it_was_sent() -> None:
    memory, how = LocalMomentum(Momentum(0.5, masked=False), True, 1), TopK(0.5)
    first = memory.corrected((1,), torch.tensor([4.0, 1.0]))
    memory.sent(first, how.compress(first, Turn(0, 0)), how, Turn(0, 0))
    second = memory.corrected((1,), torch.tensor([1.0, 1.0]))
    assert torch.equal(second, torch.tensor([3.0, 2.5]))


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_before_a_codec_that_sends_all_is_the_optimizers_own(nesterov: bool) -> None:
    memory, how = LocalMomentum(Momentum(0.9, nesterov, masked=False), True, 1), TopK(1.0)
    ours = torch.nn.Parameter(torch.zeros(4))
    theirs = torch.nn.Parameter(torch.zeros(4))
    plain = torch.optim.SGD([ours], lr=0.1)
    own = torch.optim.SGD([theirs], lr=0.1, momentum=0.9, nesterov=nesterov)
    for step in range(5):
        turn, gradient = Turn(0, step), drawn(4, step)
        left = memory.corrected((1,), gradient.clone())
        payload = how.compress(left, turn)
        memory.sent(left, payload, how, turn)
        ours.grad, theirs.grad = torch.zeros(4), gradient
        how.add(ours.grad, payload, turn)
        plain.step()
        own.step()
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_gradients_are_clipped_over_the_root_of_the_workers() -> None:
    memory = LocalMomentum(Momentum(0.0, clip=1.0), True, 4)
    own = torch.tensor([6.0, 8.0])  # of norm 10, to be clipped to 1 / 2
    found = memory.corrected((1,), own / 4)
    assert torch.allclose(4 * found, torch.tensor([0.3, 0.4]))


def test_in_the_warm_up_the_share_falls_from_a_quarter_to_the_last() -> None:
    how = SampledTopK(0.01, 0.01, 4)
    found = [how.ratio_at(Turn(0, step)) for step in (0, 2, 4, 99)]
    assert found == pytest.approx([0.25, 0.05, 0.01, 0.01])


def test_a_sampled_bound_finds_nearly_all_of_the_largest() -> None:
    values, turn = drawn(200_000, 3), Turn(0, 0)
    found, exact = torch.zeros(200_000), torch.zeros(200_000)
    SampledTopK(0.01, 0.05, 0).add(found, SampledTopK(0.01, 0.05, 0).compress(values, turn), turn)
    TopK(0.01).add(exact, TopK(0.01).compress(values, turn), turn)
    assert found.abs().sum() > 0.8 * exact.abs().sum()
    assert found.count_nonzero() <= exact.count_nonzero()


def one_worker(how: Iterative, values: "torch.Tensor", turn: Turn) -> "torch.Tensor":
    """What a lone worker is left with."""
    payload, round_ = how.first(values, turn), 0
    while payload is not None:
        round_ += 1
        payload = how.next(values, turn, round_)
    found = torch.empty_like(values)
    how.restore(found, turn)
    return found


def test_a_matrix_of_low_rank_arrives_whole() -> None:
    left, right = drawn(40, 1).view(20, 2), drawn(60, 2).view(2, 30)
    values, turn = torch.cat([(left @ right).flatten(), drawn(7, 3)]), Turn(0, 0, ((20, 30), (7,)))
    how = LowRank(3, seed=0)  # one direction more than there is
    for step in range(3):
        found = one_worker(how, values.clone(), Turn(0, step, turn.shapes))
        assert torch.allclose(found, values, atol=1e-4)


def test_rank_one_is_the_projection_on_the_first_factor() -> None:
    matrix = torch.tensor([[3.0, 0, 0, 0, 0, 0], *[[0.0, 0, 0, 0, 0, 0]] * 4, [0, 1.0, 0, 0, 0, 0]])
    how, found = LowRank(1, seed=0), torch.zeros(36)
    for step in range(20):  # power iteration finds the larger of the two singular values
        found = one_worker(how, matrix.flatten(), Turn(0, step, ((6, 6),)))
    expected = torch.zeros(6, 6)
    expected[0, 0] = 3.0
    assert torch.allclose(found.view(6, 6), expected, atol=1e-3)


def test_small_tensors_travel_whole_and_a_bucket_of_them_in_one_round() -> None:
    powersgd = parse("powersgd(rank=2)")
    assert isinstance(powersgd, Coded)
    assert powersgd.calls(Bucket(((100, 50), (7,)))) == (4 * (2 * 100 + 7), 4 * 2 * 50)
    assert powersgd.calls(Bucket(((4, 4), (7,)))) == (4 * 23,)


def among(
    members: "list[torch.Tensor]", step: int, *, ratio: float = 0.01
) -> "tuple[torch.Tensor, list[torch.Tensor]]":
    """What workers are left with, and what waits on each."""
    hows, turn = [Sketch(ratio, 9.0, seed=0) for _ in members], Turn(0, step)
    payloads, round_ = [how.first(v, turn) for how, v in zip(hows, members)], 0
    while payloads[0] is not None:
        total = torch.stack(payloads).sum(0)
        for payload in payloads:
            payload.copy_(total)
        round_ += 1
        payloads = [how.next(v, turn, round_) for how, v in zip(hows, members)]
    found = [torch.empty_like(v) for v in members]
    for how, total, left in zip(hows, found, members):
        how.restore(total, turn)
        how.keep(left, total, len(members), turn)
    assert all(torch.equal(total, found[0]) for total in found)
    return found[0], members


def test_sketches_of_all_workers_find_what_is_large_in_their_sum_alone() -> None:
    """Each worker's own largest values cancel out in the sum."""
    one, other = 0.01 * drawn(20_000, 1), 0.01 * drawn(20_000, 2)
    one[500:540], other[500:540] = 9.0, -9.0
    one[7000:7020] += 1.0
    other[7000:7020] += 1.0
    found, _ = among([one.clone(), other.clone()], 0)
    assert torch.equal(found[7000:7020], (one + other)[7000:7020])
    assert found[500:540].abs().max() < 0.2
    assert found.count_nonzero() <= SketchLayout.of(20_000, 0.01, 9.0).rounds[1]


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1000), count=st.sampled_from((1, 63, 64, 700, 5001)))
def test_what_sketches_carry_and_what_waits_on_all_workers_are_their_sum(
    seed: int, count: int
) -> None:
    members = [drawn(count, seed + i) for i in range(3)]
    found, left = among([v.clone() for v in members], seed)
    assert torch.allclose(found + sum(left), sum(members), atol=1e-5)


@pytest.mark.parametrize("count", [1, 64, 700, 5001, 100_000])
def test_sketches_are_as_long_as_predicted_and_never_longer_than_the_gradients(count: int) -> None:
    change, how = parse("count_sketch(ratio=0.01, room=9.0)"), Sketch(0.01, 9.0, 0)
    assert isinstance(change, Coded)
    values, lengths = drawn(count, 1), []
    payload = how.first(values, Turn(0, 0))
    while payload is not None:
        lengths.append(4 * payload.numel())
        payload = how.next(values, Turn(0, 0), len(lengths))
    assert tuple(lengths) == change.calls(Bucket(((count,),)))
    assert sum(lengths) == change.payload_bytes(count) <= 4 * count


def test_a_bucket_that_takes_longer_sends_a_smaller_share() -> None:
    assert shares([1.0, 4.0, 2.0], 0.01) == (0.04, 0.01, 0.02)
    assert shares([1.0, 1000.0], 0.01) == (0.25, 0.01)
    how = TopKByBucket((0.5, 0.25))
    assert [how.many(8, Turn(bucket, 0)) for bucket in (0, 1, 7)] == [4, 2, 2]


def test_the_optimizers_momentum_is_taken_over_and_given_back() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], 0.1, 0.9, nesterov=True)
    group = optimizer.param_groups[0]

    def fails() -> None:
        with taken_over(optimizer) as found:
            assert (found.factor, found.nesterov) == (0.9, True)
            assert group["momentum"] == 0.0
            assert optimizer.state_dict()["param_groups"][0]["momentum"] == 0.9
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert (group["momentum"], group["nesterov"]) == (0.9, True)


def test_momentum_that_is_not_sgds_is_refused_with_the_reason() -> None:
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(2))])
    with pytest.raises(ExchangeError, match="Adam has no momentum that workers could accumulate"):
        taken_over(optimizer).__enter__()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("topk(momentum='between')", "give 'after' or 'before'"),
        ("topk(ratio=0.0)", "give above 0, to 1"),
        ("dgc(warmup=-1)", "a warmup and a clip of 0 or more"),
        ("dgc(clip=1.0, momentum='after')", "clip needs momentum='before'"),
        ("powersgd(rank=0)", "give 1 or more"),
        ("count_sketch(room=1.0)", "room for 3 numbers or more"),
        ("adaptive_topk(ratios=(2.0,))", "give numbers above 0, to 1"),
        ("adaptive_topk(ratios=3)", "ratios must be tuple"),
    ],
)
def test_settings_that_mean_nothing_are_refused(text: str, said: str) -> None:
    with pytest.raises(StrategyError, match=said):
        parse(text)
