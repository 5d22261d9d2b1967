"""DeepSpeed's JSON. Its pipeline's stages are told here; the layers are cut by `PipelineModule`."""

import json
from collections.abc import Mapping

from paceline.imagine.decoder import DecoderJob, Precision, Sharding
from paceline.imagine.transformer import Recompute
from paceline.place.hybrid.exports.limits import refuse, refuse_part
from paceline.place.operators.problem import PlacementError

_STAGES = {
    Sharding.NONE: 0,
    Sharding.OPTIMIZER: 1,
    Sharding.GRADIENTS: 2,
    Sharding.FULL: 3,
    Sharding.HYBRID: 3,
}


def deepspeed(job: DecoderJob) -> Mapping[str, str]:
    refuse(job, "DeepSpeed", "context")
    refuse_part(job, "DeepSpeed")
    if job.recipe.precision.narrow:
        raise PlacementError(
            f"DeepSpeed's configuration has no {job.recipe.precision.value}; give --precision "
            "bf16, or export for another framework"
        )
    if job.recipe.chunks > 1:
        raise PlacementError("DeepSpeed has no interleaved schedule; plan with vp=1")
    return {"deepspeed.json": json.dumps(document(job), indent=2) + "\n"}


def document(job: DecoderJob) -> dict[str, object]:
    r, d, stage = job.recipe, job.degrees, _STAGES[job.recipe.sharding]
    if stage > 1 and d.pipeline > 1:
        raise PlacementError("DeepSpeed's pipeline works with ZeRO 0 and 1; plan with zero=1")
    zero: dict[str, object] = {"stage": stage, "overlap_comm": r.habits.overlap_gradients}
    if r.sharding is Sharding.HYBRID:
        zero["zero_hpz_partition_size"] = 8
    found: dict[str, object] = {
        "train_batch_size": r.global_batch,
        "train_micro_batch_size_per_gpu": r.micro_batch,
        "gradient_accumulation_steps": job.microbatches,
        "zero_optimization": zero,
        "fp16" if r.precision is Precision.FP16 else "bf16": {
            "enabled": r.precision is not Precision.FP32
        },
    }
    if d.tensor > 1:
        found["tensor_parallel"] = {"autotp_size": d.tensor}
    if d.pipeline > 1:
        found["pipeline"] = {"stages": d.pipeline, "partition": "uniform"}
    if r.recompute is Recompute.FULL:
        found["activation_checkpointing"] = {"partition_activations": d.tensor > 1}
    return found
