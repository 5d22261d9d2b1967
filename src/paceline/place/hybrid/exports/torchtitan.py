"""torchtitan: overrides of its command line, and a function that changes a `Trainer.Config`.

Names are those of its configuration in August 2026 (`torchtitan/config/configs.py`). A step is
counted in tokens there; a micro-batch is what one data rank works on at once.
"""

from collections.abc import Mapping

from paceline.imagine.decoder import DecoderJob, Fusion, Precision, Sharding
from paceline.imagine.transformer import Recompute
from paceline.place.hybrid.exports.limits import refuse_part
from paceline.place.operators.problem import PlacementError

_CHECKPOINTS = {
    Recompute.NONE: "None",
    Recompute.SELECTIVE: "SelectiveAC.Config()",
    Recompute.FULL: "FullAC.Config()",
}


def torchtitan(job: DecoderJob) -> Mapping[str, str]:
    """A line of overrides, and a module with `configure`."""
    if job.recipe.precision in (Precision.FP16, Precision.FP32):
        raise PlacementError(
            f"torchtitan trains in bf16 and below; the plan is for {job.recipe.precision.value}"
        )
    refuse_part(job, "torchtitan", selective=True)
    settings = {**_training(job), **_parallelism(job), **_compile(job)}
    lines = "\n".join(f"  {_option(name, value)}" for name, value in settings.items())
    return {
        "torchtitan.sh": f"OVERRIDES=(\n{lines}\n)\n",
        "torchtitan_plan.py": _module(job, settings),
    }


def _training(job: DecoderJob) -> dict[str, object]:
    r = job.recipe
    return {
        "training.num_tokens_per_microbatch_per_dp_rank": r.micro_batch * job.sequence,
        "training.num_tokens_per_train_step": r.global_batch * job.sequence,
        "training.max_context_length": job.sequence,
    }


def _parallelism(job: DecoderJob) -> dict[str, object]:
    d, r = job.degrees, job.recipe
    replicas = {Sharding.NONE: d.data, Sharding.HYBRID: max(1, d.data // 8)}.get(r.sharding, 1)
    found: dict[str, object] = {
        "data_parallel_replicate_degree": replicas,
        "data_parallel_shard_degree": d.data // replicas,
        "fsdp_reshard_after_forward": "always" if job.regathers else "never",
        "tensor_parallel_degree": d.tensor,
        "context_parallel_degree": d.sequence,
        "expert_parallel_degree": d.expert,
        "pipeline_parallel_degree": d.pipeline,
    }
    if d.pipeline > 1:
        found["pipeline_parallel_schedule"] = "Interleaved1F1B" if r.chunks > 1 else "1F1B"
        found["num_pp_microbatches"] = job.microbatches
        found["pipeline_parallel_layers_per_stage"] = max(len(chunk) for chunk in job.chunks)
    return {f"parallelism.{name}": value for name, value in found.items()}


def _compile(job: DecoderJob) -> dict[str, object]:
    compiled = job.recipe.habits.fusion is not Fusion.EAGER
    found: dict[str, object] = {"compile.enable": compiled}
    if compiled and job.recipe.habits.overlap_tensor and job.degrees.tensor > 1:
        found["compile.enable_async_tensor_parallel"] = True
    return found


def _option(name: str, value: object) -> str:
    if not isinstance(value, bool):
        return f"--{name} {value}"
    section, _, last = name.rpartition(".")
    return f"--{name}" if value else f"--{section}.no-{last}"


def _module(job: DecoderJob, settings: Mapping[str, object]) -> str:
    lines = "\n".join(f"    config.{name} = {value!r}" for name, value in settings.items())
    kept = _CHECKPOINTS[job.recipe.recompute]
    brought = "" if kept == "None" else (
        "    from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC\n\n"
    )  # fmt: skip
    return (
        f'"""The plan for {job.model.name} on {job.degrees.world} devices, for torchtitan.\n\n'
        "Call it in a function of a model's config_registry: `return configure(llama3_8b())`.\n"
        f'"""\n\nfrom typing import Any\n\n\ndef configure(config: Any) -> Any:\n{brought}{lines}\n'
        f"    config.activation_checkpoint = {kept}\n    return config\n"
    )
