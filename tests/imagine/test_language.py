"""Language models by their configuration: arithmetic, backward passes, fusion, several GPUs."""

import pytest

from paceline.errors import GraphError
from paceline.graph.kinds import Collective
from paceline.graph.work import Family
from paceline.imagine.language import (
    GpuSplit,
    Pass,
    backward,
    forward,
    fused,
    language,
    parameters,
    split_of,
    step,
)
from paceline.imagine.language.parallel import Way

GPT2 = {
    "model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 1000,
    "activation_function": "gelu_new",
}  # fmt: skip
SWITCH = {
    "model_type": "switch_transformers", "num_layers": 4, "num_decoder_layers": 4, "d_model": 64,
    "num_heads": 4, "d_kv": 16, "d_ff": 128, "vocab_size": 1000, "num_experts": 4,
    "encoder_sparse_step": 2, "dense_act_fn": "relu",
}  # fmt: skip


def flops(works: list) -> int:
    return sum(work.flops for work in works if work.family is Family.MATRIX)


def test_a_forward_pass_does_two_operations_per_weight_and_token_and_its_attention() -> None:
    run = Pass(batch=3, seq=16)
    weights = 2 * 12 * 64**2 + 64 * 1000
    attention = 2 * 4 * 3 * 16 * 16 * 64
    assert flops(forward(language(GPT2), run)) == 2 * weights * run.tokens + attention


def test_a_backward_pass_does_twice_the_products_of_its_forward_pass() -> None:
    works = forward(language(GPT2), Pass(2, 16, training=True))
    assert flops(backward(works)) == 2 * flops(works)


def test_fusion_moves_fewer_bytes_and_leaves_products_alone() -> None:
    works = forward(language(GPT2), Pass(2, 16))
    joined = fused(works)
    assert flops(joined) == flops(works)
    assert sum(w.size_bytes for w in joined) < sum(w.size_bytes for w in works)


def test_experts_share_the_tokens_among_them() -> None:
    works = forward(language(SWITCH), Pass(1, 64))
    ffn = [w for w in works if w.family is Family.MATRIX and getattr(w.dims, "n", 0) == 128]
    assert sorted({w.dims.m for w in ffn}) == [16, 64]


def test_an_expert_takes_no_more_tokens_of_a_sequence_than_it_has_room_for() -> None:
    works = forward(language({**SWITCH, "expert_capacity": 5}), Pass(2, 64))
    ffn = [w for w in works if w.family is Family.MATRIX and getattr(w.dims, "n", 0) == 128]
    assert sorted({w.dims.m for w in ffn}) == [10, 128]


def test_ways_to_share_a_model_keep_its_products() -> None:
    model, run = language(GPT2), Pass(4, 16, training=True)
    alone = step(model, run)
    data, tensor, pipeline = (step(model, run, option) for option in ("dp4", "tp4", "pp4_1"))
    assert flops(list(data.forward)) * 4 == flops(list(alone.forward))
    assert pipeline.forward == alone.forward
    assert flops(list(alone.forward)) / 4 < flops(list(tensor.forward)) < flops(list(alone.forward))
    assert data.exchanged_back[0].size_bytes == 4 * parameters(model)
    assert tensor.exchanged[0].count == 4
    assert pipeline.exchanged[0].collective is Collective.POINT_TO_POINT


def test_what_cannot_be_described_is_refused() -> None:
    with pytest.raises(GraphError, match="known are bert, gpt2"):
        language({"model_type": "mamba"})
    with pytest.raises(GraphError, match="cannot be shared by 4 GPUs"):
        step(language(GPT2), Pass(3, 16), "dp4")


@pytest.mark.parametrize("option", ["xx", "fusion+dp4", "dp", "dp0", "dp4_2", "pp4_0", "4"])
def test_an_unknown_way_to_share_a_model_is_refused_with_those_that_are_known(option: str) -> None:
    with pytest.raises(GraphError, match=r"known are dp4 .*tp4 .*pp4_2 .*fusion"):
        split_of(option)


def test_a_pipeline_tells_its_stages_and_micro_batches() -> None:
    assert split_of("pp4_2") == GpuSplit(Way.PIPELINE, 4, 2)
    assert split_of("pp4") == GpuSplit(Way.PIPELINE, 4, 1)
    assert split_of("fusion") == split_of("") == GpuSplit()
