"""Models of today by their dimensions: parameters, what ranks do and hold, what is refused."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import GraphError
from paceline.graph.kinds import Collective, MemoryCategory
from paceline.graph.schedules import Schedule, TaskKind, in_flight, order
from paceline.imagine.decoder import (
    EARLY_MEGATRON,
    TORCHTITAN,
    AxisCollective,
    DecoderJob,
    Operator,
    Operators,
    Passes,
    Precision,
    Product,
    Recipe,
    Sharding,
    decoder,
    from_document,
    fullest,
    kept_bytes,
    shipped,
)
from paceline.imagine.transformer import Degrees, Recompute

SMALL = {
    "name": "small",
    "layers": 8,
    "hidden": 256,
    "vocab": 1024,
    "attention": {"kind": "grouped", "heads": 8, "kv_heads": 4, "head_dim": 32},
    "feed_forward": {"kind": "gated", "width": 512},
}
PUBLISHED = {
    "gpt3-175b": 175e9,
    "llama2-7b": 6.74e9,
    "llama2-70b": 68.98e9,
    "llama3-8b": 8.03e9,
    "llama3.1-405b": 405.9e9,
    "nemotron-340b": 341e9,
    "qwen3-30b-a3b": 30.5e9,
    "qwen3-235b-a22b": 235.1e9,
    "deepseek-v2": 236e9,
    "deepseek-v3": 671e9,
    "kimi-k2": 1.026e12,
    "llama4-scout": 107.8e9,
    "gpt-oss-120b": 116.8e9,
    "mixtral-8x7b": 46.7e9,
}
ACTIVE = {"qwen3-30b-a3b": 3.3e9, "deepseek-v3": 37.5e9, "gpt-oss-120b": 5.7e9}

ONE_SOFTMAX = replace(EARLY_MEGATRON, softmax_by_four=False)


def job(model: str = "llama3-8b", degrees: Degrees | None = None, **settings: object) -> DecoderJob:
    recipe = replace(Recipe(64), **settings)  # type: ignore[arg-type]
    return DecoderJob(decoder(model), degrees or Degrees(), recipe)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_that_the_models_name(name: str) -> None:
    assert decoder(name).params == pytest.approx(PUBLISHED[name], rel=0.01)


@pytest.mark.parametrize("name", ACTIVE)
def test_a_token_meets_as_many_parameters_as_published(name: str) -> None:
    assert decoder(name).active_params == pytest.approx(ACTIVE[name], rel=0.12)


def test_every_shipped_model_says_where_its_figures_come_from() -> None:
    assert all(model.source for model in shipped().values())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"attention": {"kind": "linear", "heads": 8}}, "known kinds: grouped, latent"),
        ({"feed_forward": {"kind": "sparse", "width": 8}}, "known kinds: gated, plain"),
        ({"layers": 0}, "layers is 0"),
        ({"colour": "blue"}, "'colour'"),
        ({"attention": {"kind": "latent", "heads": 8}}, "latent attention lacks query_rank"),
        ({"experts": {"count": 4, "top_k": 8, "ffn": 64}}, "top_k=8 of 4"),
    ],
)
def test_a_model_file_that_makes_no_sense_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(GraphError, match=said):
        from_document({**SMALL, **change})


def test_a_model_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(
        "layers: 2\nhidden: 64\nvocab: 128\nattention: {kind: grouped, heads: 4}\n"
        "feed_forward: {kind: plain, width: 256}\n"
    )
    assert decoder(path).attention.head_dim == 16
    with pytest.raises(GraphError, match="cannot read model file"):
        decoder(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("degrees", "settings", "said"),
    [
        (Degrees(tensor=3), {}, "heads=32 is not divisible by tensor=3"),
        (Degrees(data=3), {}, "global_batch=64 is not divisible"),
        (Degrees(expert=2, data=2), {}, "has no experts"),
        (Degrees(pipeline=64), {}, "cannot be cut into 64 stages"),
        (Degrees(pipeline=2), {"chunks": 2}, "need the interleaved schedule"),
        (Degrees(), {"micro_batch": 0}, "micro_batch is 0"),
    ],
)
def test_degrees_that_cannot_be_are_refused(
    degrees: Degrees, settings: dict[str, object], said: str
) -> None:
    with pytest.raises(GraphError, match=said):
        job(degrees=degrees, **settings)


@pytest.mark.parametrize("name", ["llama3-8b", "deepseek-v3", "nemotron-340b", "gpt3-20b"])
@pytest.mark.parametrize("stages", [1, 2, 3, 8, 16])
def test_chunks_hold_every_layer_once(name: str, stages: int) -> None:
    made = job(name, Degrees(pipeline=stages), global_batch=48)
    assert [layer for chunk in made.chunks for layer in chunk] == list(range(made.model.layers))


@pytest.mark.parametrize(
    ("stages", "last"), [(4, 14), (8, 6), (16, 2)], ids=["4 stages", "8 stages", "16 stages"]
)
def test_a_layer_that_predicts_further_on_takes_the_room_of_one_on_the_last_stage(
    stages: int, last: int
) -> None:
    """61 layers, one more, embedding and output are 64."""
    sizes = [len(chunk) for chunk in job("deepseek-v3", Degrees(pipeline=stages)).chunks]
    assert sizes == [64 // stages - 1, *[64 // stages] * (stages - 2), last]


def test_a_layer_that_predicts_further_on_is_counted_as_published_runs_count_it() -> None:
    """899 TFLOP/s at 3,454 tokens per second and GPU (Megatron-Bridge, sequences of 4,096)."""
    assert decoder("deepseek-v3").flops_per_token(4096) == pytest.approx(899e12 / 3454, rel=0.005)


def test_what_predicts_further_on_lies_on_the_last_stage_alone() -> None:
    with_it = job("deepseek-v3", Degrees(pipeline=16))
    plain = replace(with_it, model=replace(with_it.model, further=0))
    more = [
        sum(share.params for share in with_it.shares(content))
        - sum(share.params for share in plain.shares(content))
        for content in with_it.contents
    ]
    assert more == [0] * 15 + [with_it.model.further_params]
    assert Operators(with_it).joined()[-1] == Operators(plain).joined()[-1]


@pytest.mark.parametrize("name", ["llama3-70b", "deepseek-v3", "qwen3-30b-a3b"])
def test_the_weights_of_all_ranks_are_those_of_the_model(name: str) -> None:
    degrees = Degrees(data=8, tensor=2, pipeline=4, expert=16)
    degrees = degrees if decoder(name).experts else replace(degrees, expert=1)
    made = job(name, degrees)
    held = 0.0
    for content in made.contents:
        for share in made.shares(content):
            held += share.params * made.stage_ranks / share.replicas
    model = made.model
    assert held == pytest.approx(model.params + model.further_params, rel=0.01)


@pytest.mark.parametrize("name", ["llama3-8b", "deepseek-v3", "qwen3-235b-a22b"])
def test_products_have_the_arithmetic_of_the_parameters_that_tokens_meet(name: str) -> None:
    made = job(name, sequence=4096)
    listed = Operators(made)
    total = sum(
        2 * one.count * one.m * one.n * one.k
        for layer in range(made.model.layers)
        for one in listed.forward(routed=made.model.is_routed(layer))
        if isinstance(one, Product)
    )
    words = made.model.ends_params
    assert total == pytest.approx(2 * made.tokens * (made.model.active_params - words), rel=0.01)


def test_backward_products_are_twice_the_forward_ones() -> None:
    made = Operators(job("qwen3-30b-a3b", Degrees(data=8, expert=8)))

    def work(listed: list[Operator]) -> int:
        return sum(
            one.count * one.b * one.m * one.n * one.k for one in listed if isinstance(one, Product)
        )

    assert work(made.backward(routed=True)) == 2 * work(made.forward(routed=True))


@pytest.mark.parametrize(("micro_batch", "kernels"), [(1, 8), (2, 8), (4, 4)])
def test_early_megatron_needs_sequences_times_heads_by_four_for_one_softmax(
    micro_batch: int, kernels: int
) -> None:
    """96 heads over 32 ranks: 3 a rank."""
    made = job("gpt3-175b", Degrees(tensor=32), micro_batch=micro_batch, habits=EARLY_MEGATRON)
    listed = Operators(made).forward(routed=False)
    (behind,) = (
        after
        for one, after in pairwise(listed)
        if isinstance(one, Product) and one.name == "scores"
    )
    assert isinstance(behind, Passes)
    assert behind.launches == kernels
    pairs = 3 * micro_batch * made.sequence**2
    fused = replace(made, recipe=replace(made.recipe, habits=ONE_SOFTMAX))
    more = kept_bytes(made, routed=False) - kept_bytes(fused, routed=False)
    assert more == (0 if kernels == 4 else 2 * pairs)  # its result in float32


@given(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8))
def test_routed_layers_among_consecutive_ones_are_those_that_say_so(
    dense: int, first: int, count: int
) -> None:
    plain = decoder("deepseek-v3")
    assert plain.experts is not None
    made = replace(plain, experts=replace(plain.experts, dense_layers=dense))
    layers = tuple(range(first, first + count))
    assert made.routed_among(layers) == sum(map(made.is_routed, layers))


def test_tensor_ranks_gather_and_scatter_and_experts_exchange_tokens() -> None:
    listed = Operators(job("deepseek-v3", Degrees(data=8, tensor=2, expert=16)))
    calls = [
        one.collective for one in listed.forward(routed=True) if isinstance(one, AxisCollective)
    ]
    assert calls.count(Collective.ALL_TO_ALL) == 2
    assert Collective.ALL_GATHER in calls
    assert Collective.REDUCE_SCATTER in calls
    alone = Operators(job("deepseek-v3"))
    assert not [one for one in alone.forward(routed=True) if isinstance(one, AxisCollective)]


@given(
    st.sampled_from([Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED]),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_passes_in_flight_are_those_of_the_order(
    schedule: Schedule, stages: int, groups: int, chunks: int
) -> None:
    chunks = chunks if schedule is Schedule.INTERLEAVED else 1
    count = groups * stages
    for stage in range(stages):
        most = held = 0
        for task in order(schedule, stage, stages, count, chunks):
            held += 1 if task.work is TaskKind.FORWARD else -1
            most = max(most, held)
        assert in_flight(schedule, stage, stages, count, chunks) == most


def test_sharing_out_more_holds_less_and_only_what_it_shares() -> None:
    eight = Degrees(data=8)
    held = [
        fullest(job(degrees=eight, sharding=how)).held
        for how in (Sharding.NONE, Sharding.OPTIMIZER, Sharding.GRADIENTS, Sharding.FULL)
    ]
    for category, least in (
        (MemoryCategory.OPTIMIZER, 1),
        (MemoryCategory.GRADIENTS, 2),
        (MemoryCategory.WEIGHTS, 3),
    ):
        sizes = [one[category] for one in held]
        assert sizes[:least] == [sizes[0]] * least
        assert all(size == pytest.approx(sizes[0] / 8, rel=1e-6) for size in sizes[least:])
    assert len({one[MemoryCategory.ACTIVATIONS] for one in held}) == 1


def test_recomputation_holds_less_and_works_more() -> None:
    kept = [fullest(job(recompute=how)).total for how in (Recompute.NONE, Recompute.FULL)]
    assert kept[1] < kept[0]
    again, plain = (
        len(Operators(job(recompute=how)).backward(routed=False))
        for how in (Recompute.FULL, Recompute.NONE)
    )
    assert again > plain


def test_fewer_bits_keep_smaller_operands() -> None:
    narrow = fullest(job(precision=Precision.FP8)).held[MemoryCategory.ACTIVATIONS]
    wide = fullest(job(precision=Precision.BF16)).held[MemoryCategory.ACTIVATIONS]
    assert narrow < wide


def test_fsdp_keeps_weights_in_float32() -> None:
    made = fullest(job(sharding=Sharding.FULL, habits=TORCHTITAN, degrees=Degrees(data=8)))
    assert made.held[MemoryCategory.WEIGHTS] == pytest.approx(4 * 8.03e9 / 8, rel=0.01)
