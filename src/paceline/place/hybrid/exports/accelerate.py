"""Hugging Face accelerate's YAML: FSDP 2 with its parallelism configuration."""

from collections.abc import Mapping

import yaml

from paceline.imagine.decoder import DecoderJob, Precision, Sharding
from paceline.imagine.transformer import Recompute
from paceline.place.hybrid.exports.limits import refuse, refuse_part

_HOST = 8  # devices of a host, over which hybrid sharding cuts


def accelerate(job: DecoderJob) -> Mapping[str, str]:
    refuse(job, "accelerate", "pipeline", "expert")
    refuse_part(job, "accelerate")
    return {"accelerate.yaml": yaml.safe_dump(document(job), sort_keys=False)}


def document(job: DecoderJob) -> dict[str, object]:
    d, r = job.degrees, job.recipe
    copies = {Sharding.NONE: d.data, Sharding.HYBRID: max(1, d.data // _HOST)}.get(r.sharding, 1)
    prefix = "parallelism_config_"
    return {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP",
        "mixed_precision": _mixed(r.precision),
        "num_processes": d.world,
        "num_machines": max(1, d.world // _HOST),
        "machine_rank": 0,
        "fsdp_config": {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": r.sharding in (Sharding.FULL, Sharding.HYBRID),
            "fsdp_activation_checkpointing": r.recompute is Recompute.FULL,
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        },
        "parallelism_config": {
            f"{prefix}dp_replicate_size": copies,
            f"{prefix}dp_shard_size": d.data // copies,
            f"{prefix}tp_size": d.tensor,
            f"{prefix}cp_size": d.sequence,
        },
    }


def _mixed(precision: Precision) -> str:
    if precision is Precision.FP32:
        return "no"
    if precision is Precision.FP16:
        return "fp16"
    return "fp8" if precision.narrow else "bf16"
