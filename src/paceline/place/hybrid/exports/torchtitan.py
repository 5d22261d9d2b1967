"""torchtitan: overrides of its command line, and a function that changes a `Trainer.Config`.

Names are those of torchtitan 0.3 (`torchtitan/config/configs.py`), and its own parser reads them in
the tests. Overrides cannot say which layers lie in which stage, nor in how many bits products run;
the function can, and the overrides tell in a comment where they fall short of it.
"""

from collections.abc import Iterator, Mapping
from math import ceil

from paceline.imagine.decoder import DecoderJob, Fusion, Precision, Sharding
from paceline.imagine.transformer import Recompute
from paceline.place.hybrid.exports.limits import refuse_part
from paceline.place.operators.problem import PlacementError

_CHECKPOINTS = {
    Recompute.NONE: ("none", "None"),
    Recompute.SELECTIVE: ("selective", "SelectiveAC.Config()"),
    Recompute.FULL: ("full", "FullAC.Config()"),
}
"""As a command of its parser, and as a value."""
_CONVERTERS = {
    Precision.FP8_CURRENT: "Float8LinearConverter",  # a scale for each row
    Precision.FP8_BLOCK: "MXFP8LinearConverter",
    Precision.FP4: "NVFP4LinearConverter",
}


def torchtitan(job: DecoderJob) -> Mapping[str, str]:
    """A line of overrides, and a module with `configure`."""
    if job.recipe.precision is not Precision.BF16 and job.recipe.precision not in _CONVERTERS:
        known = ", ".join(one.value for one in (Precision.BF16, *_CONVERTERS))
        raise PlacementError(
            f"torchtitan trains in {known}; the plan is for {job.recipe.precision.value}"
        )
    refuse_part(job, "torchtitan", selective=True)
    settings = {**_training(job), **_parallelism(job), **_compile(job)}
    lines = "\n".join(f"  {_option(name, value)}" for name, value in settings.items())
    lacking = "".join(f"# {line}\n" for line in _lacking(job))
    command = f"activation-checkpoint:{_CHECKPOINTS[job.recipe.recompute][0]}"
    return {
        "torchtitan.sh": f"{lacking}OVERRIDES=(\n{lines}\n  {command}\n)\n",
        "torchtitan_plan.py": _module(job, settings),
    }


def _training(job: DecoderJob) -> dict[str, object]:
    """A pipeline is given all its micro-batches at once."""
    d, r = job.degrees, job.recipe
    found: dict[str, object] = {
        "training.local_batch_size": r.micro_batch * (job.microbatches if d.pipeline > 1 else 1),
        "training.global_batch_size": r.global_batch,
        "training.seq_len": job.sequence,
    }
    if d.pipeline > 1 or d.expert > 1:  # its graphs hold neither
        found["training.disable_cuda_graphs"] = True
    return found


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
        ends = 0 if len(set(_sizes(job))) == 1 else 1  # embedding and output count as layers
        found["pipeline_parallel_schedule"] = "Interleaved1F1B" if r.chunks > 1 else "1F1B"
        found["pipeline_parallel_microbatch_size"] = r.micro_batch
        found["pipeline_parallel_layers_per_stage"] = _per_stage(job, ends)
        found["pipeline_parallel_first_stage_less_layers"] = ends
        found["pipeline_parallel_last_stage_less_layers"] = ends
    return {f"parallelism.{name}": value for name, value in found.items()}


def _sizes(job: DecoderJob) -> list[int]:
    return [len(chunk) for chunk in job.chunks]


def _per_stage(job: DecoderJob, ends: int) -> int:
    return ceil((job.model.layers + 2 * ends) / len(job.chunks))


def _cut(job: DecoderJob) -> list[int]:
    """Layers of each stage as torchtitan cuts by these overrides: what is left over goes first."""
    ends = 0 if len(set(_sizes(job))) == 1 else 1
    whole = job.model.layers + 2 * ends
    stages = ceil(whole / _per_stage(job, ends))
    each, more = divmod(whole, stages)
    sizes = [each + (stage < more) for stage in range(stages)]
    return [sizes[0] - ends, *sizes[1:-1], sizes[-1] - ends]


def _lacking(job: DecoderJob) -> Iterator[str]:
    """What of the plan overrides cannot say."""
    if job.degrees.pipeline > 1 and _cut(job) != _sizes(job):
        yield f"torchtitan cuts stages of {_cut(job)} layers by these, the plan of {_sizes(job)}:"
        yield "use configure() of torchtitan_plan.py, which names the layers of each"
    if job.recipe.precision in _CONVERTERS:
        yield f"products in {job.recipe.precision.value} are set by configure() of"
        yield "torchtitan_plan.py alone"


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
    lines = [f"config.{name} = {value!r}" for name, value in settings.items()]
    if job.degrees.pipeline > 1:
        lines += _stages(job)
    _, kept = _CHECKPOINTS[job.recipe.recompute]
    if kept != "None":
        name = kept.partition(".")[0]
        lines.append(f"from torchtitan.distributed.activation_checkpoint import {name}\n")
    lines += [f"config.activation_checkpoint = {kept}", *_converted(job), "return config"]
    body = "\n".join(f"    {line}" if line else "" for line in "\n".join(lines).splitlines())
    return (
        f'"""The plan for {job.model.name} on {job.degrees.world} devices, for torchtitan 0.3.\n\n'
        "Call it in a function of a model's config_registry: `return configure(llama3_8b())`.\n"
        '"""\n\nfrom typing import Any\n\n\n'
        f"def configure(config: Any) -> Any:\n{body}\n"
    )


def _stages(job: DecoderJob) -> Iterator[str]:
    """The modules of each chunk, in the order of the pipeline."""
    last = len(job.chunks) - 1
    yield "config.parallelism.module_fqns_per_model_part = ["
    for at, layers in enumerate(job.chunks):
        begin = ["tok_embeddings"] if at == 0 else []
        end = ["norm", "lm_head"] if at == last else []
        yield f"    {[*begin, *(f'layers.{layer}' for layer in layers), *end]!r},"
    yield "]"


def _converted(job: DecoderJob) -> Iterator[str]:
    """Products in fewer bits."""
    name = _CONVERTERS.get(job.recipe.precision)
    if name is None:
        return
    compiled = job.recipe.habits.fusion is not Fusion.EAGER
    yield "from dataclasses import replace\n"
    yield f"from torchtitan.components.quantization import {name}\n"
    yield f"converter = {name}.Config(model_compile_enabled={compiled}).build()"
    yield "made = converter.convert(config.model_spec.model)"
    yield "config.model_spec = replace(config.model_spec, model=made)"
