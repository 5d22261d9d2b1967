"""Megatron-LM's command-line flags (`pretrain_gpt.py`), of the parallelism and of the model."""

from collections.abc import Iterator, Mapping

from paceline.imagine.decoder import DecoderJob, GroupedQuery, Latent, Precision, Sharding
from paceline.imagine.transformer import Recompute

_FP8 = {
    Precision.FP8: "delayed",
    Precision.FP8_CURRENT: "tensorwise",
    Precision.FP8_BLOCK: "mxfp8",
}


def megatron(job: DecoderJob) -> Mapping[str, str]:
    """One shell file that sets ARGUMENTS."""
    lines = "\n".join(f"  {flag}" for flag in flags(job))
    return {"megatron.sh": f"ARGUMENTS=(\n{lines}\n)\n"}


def flags(job: DecoderJob) -> Iterator[str]:
    d, r = job.degrees, job.recipe
    yield f"--tensor-model-parallel-size {d.tensor}"
    yield f"--pipeline-model-parallel-size {d.pipeline}"
    if r.chunks > 1:
        yield f"--num-virtual-stages-per-pipeline-rank {r.chunks}"
    if job.model.further and d.pipeline > 1:
        yield f"--pipeline-model-parallel-layout '{_layout(job)}'"
    elif job.model.layers % (d.pipeline * r.chunks):
        yield "--account-for-embedding-in-pipeline-split"
        yield "--account-for-loss-in-pipeline-split"
    if d.sequence > 1:
        yield f"--context-parallel-size {d.sequence}"
    if job.model.experts is not None:
        yield f"--expert-model-parallel-size {d.expert}"
        yield "--expert-tensor-parallel-size 1"
    if d.tensor > 1 and r.habits.sequence_parallel:
        yield "--sequence-parallel"
    if d.tensor > 1 and r.habits.overlap_tensor and job.model.experts is None:
        yield "--tp-comm-overlap"
    yield f"--micro-batch-size {r.micro_batch}"
    yield f"--global-batch-size {r.global_batch}"
    yield from _sharding(job)
    if r.recompute is Recompute.FULL:
        yield "--recompute-granularity full"
        yield f"--recompute-method {'block' if r.recomputed else 'uniform'}"
        yield f"--recompute-num-layers {r.recomputed or 1}"
    elif r.recompute is Recompute.SELECTIVE:
        yield "--recompute-granularity selective"
        modules = ["layernorm", *(["moe_act"] if job.model.experts else [])]
        modules += ["mla_up_proj"] if isinstance(job.model.attention, Latent) else []
        yield f"--recompute-modules {' '.join(modules)}"
    yield from _precision(r.precision)
    yield from _model(job)


def _layout(job: DecoderJob) -> str:
    """Chunk by chunk: embedding, layers, layers that predict further on, loss."""
    chunks = ["t" * len(chunk) for chunk in job.chunks]
    return f"E{'|'.join(chunks)}{'m' * job.model.further}L"


def _sharding(job: DecoderJob) -> Iterator[str]:
    how = job.recipe.sharding
    if how is Sharding.OPTIMIZER:
        yield "--use-distributed-optimizer"
    elif how is not Sharding.NONE:
        strategy = "optim_grads" if how is Sharding.GRADIENTS else "optim_grads_params"
        yield "--use-megatron-fsdp"
        yield f"--data-parallel-sharding-strategy {strategy}"
        yield "--use-distributed-optimizer"
    if job.recipe.habits.overlap_gradients and how is not Sharding.NONE:
        yield "--overlap-grad-reduce"
        yield "--overlap-param-gather"


def _precision(precision: Precision) -> Iterator[str]:
    if precision is Precision.FP16:
        yield "--fp16"
    elif precision is not Precision.FP32:
        yield "--bf16"
    if precision in _FP8:
        yield "--fp8-format hybrid"
        yield f"--fp8-recipe {_FP8[precision]}"
    if precision is Precision.FP4:
        yield "--fp4-format e2m1"


def _model(job: DecoderJob) -> Iterator[str]:
    m, a = job.model, job.model.attention
    yield f"--num-layers {m.layers}"
    yield f"--hidden-size {m.hidden}"
    yield f"--num-attention-heads {a.heads}"
    yield f"--seq-length {job.sequence}"
    yield f"--max-position-embeddings {max(job.sequence, m.positions)}"
    if m.ffn:
        yield f"--ffn-hidden-size {m.ffn}"
    if m.gated:
        yield "--swiglu"
    if not m.tied:
        yield "--untie-embeddings-and-output-weights"
    if isinstance(a, GroupedQuery):
        yield f"--kv-channels {a.head_dim}"
        if a.kv_heads < a.heads:
            yield "--group-query-attention"
            yield f"--num-query-groups {a.kv_heads}"
    if isinstance(a, Latent):
        yield "--multi-latent-attention"
        if a.query_rank:
            yield f"--q-lora-rank {a.query_rank}"
        yield f"--kv-lora-rank {a.key_value_rank}"
        yield f"--qk-head-dim {a.nope}"
        yield f"--qk-pos-emb-head-dim {a.rope}"
        yield f"--v-head-dim {a.value}"
    if m.experts is not None:
        yield f"--num-experts {m.experts.count}"
        yield f"--moe-router-topk {m.experts.top_k}"
        yield f"--moe-ffn-hidden-size {m.experts.ffn}"
        yield "--moe-grouped-gemm"
        yield "--moe-token-dispatcher-type alltoall"
        if m.experts.shared:
            yield f"--moe-shared-expert-intermediate-size {m.experts.shared}"
        if m.experts.dense_layers:
            routed = ",".join(str(int(m.is_routed(layer))) for layer in range(m.layers))
            yield f"--moe-layer-freq '[{routed}]'"
    if m.further:
        yield f"--mtp-num-layers {m.further}"
