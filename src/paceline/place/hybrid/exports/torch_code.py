"""PyTorch code that runs: `torch_plan.py` with a plan's figures written into it."""

from collections.abc import Mapping
from importlib.resources import files
from pprint import pformat
from typing import Final

from paceline.imagine.decoder import DecoderJob, GroupedQuery, Precision
from paceline.imagine.transformer import Recompute
from paceline.place.hybrid.exports.limits import refuse
from paceline.place.operators.problem import PlacementError

_BEGIN: Final = "# what was planned\n"
_END: Final = "# end of what was planned\n"
_TYPES: Final = {Precision.FP32: "float32", Precision.BF16: "bfloat16"}


def torch_code(job: DecoderJob) -> Mapping[str, str]:
    """One script, for models with grouped-query attention and without experts."""
    refuse(job, "the exported PyTorch code", "context", "expert")
    if job.recipe.recompute is Recompute.SELECTIVE:
        raise PlacementError(
            "the exported PyTorch code recomputes whole layers; give --own a plan with "
            "recompute=full, or full:N for the first N of each chunk"
        )
    if job.recipe.precision not in _TYPES:
        known = " and ".join(one.value for one in _TYPES)
        raise PlacementError(
            f"the exported PyTorch code trains in {known}; the plan is for "
            f"{job.recipe.precision.value}. Give --precision bf16, or export for another framework"
        )
    m = job.model
    if not isinstance(m.attention, GroupedQuery) or m.experts is not None:
        raise PlacementError(
            f"the exported PyTorch code has no latent attention and no experts, which {m.name} "
            "has; export for torchtitan or megatron"
        )
    if m.attention.kv_heads % job.degrees.tensor:
        raise PlacementError(
            f"PyTorch's tensor parallelism cannot share {m.attention.kv_heads} key and value heads "
            f"among {job.degrees.tensor} ranks; plan with a tensor degree that divides them"
        )
    text = (files("paceline.place.hybrid.exports") / "torch_plan.py").read_text()
    before, rest = text.split(_BEGIN, 1)
    behind = rest.split(_END, 1)[1]
    planned = f"PLAN = {pformat(_plan(job), width=96)}\nMODEL = {pformat(_model(job), width=96)}\n"
    return {"torch_plan.py": f"{before}{planned}{behind}"}


def _plan(job: DecoderJob) -> dict[str, object]:
    d, r = job.degrees, job.recipe
    return {
        "data": d.data,
        "tensor": d.tensor,
        "pipeline": d.pipeline,
        "layers": [list(chunk) for chunk in job.chunks],
        "global_batch": r.global_batch,
        "micro_batch": r.micro_batch,
        "micro_batches": job.microbatches,
        "sequence": job.sequence,
        "type": _TYPES[r.precision],
        "sharding": r.sharding.value,
        "regathers": job.regathers,
        "recompute": [layer for chunk in job.chunks for layer in job.again(chunk)],
    }


def _model(job: DecoderJob) -> dict[str, object]:
    m = job.model
    return {
        "layers": m.layers,
        "hidden": m.hidden,
        "heads": m.attention.heads,
        "kv_heads": m.attention.kv_heads,
        "head_dim": m.attention.head_dim,
        "ffn": m.ffn,
        "gated": m.gated,
        "vocab": m.vocab,
    }
