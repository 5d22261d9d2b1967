"""Exported plans: each framework's words, and PyTorch code that runs."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from paceline.cluster import from_document
from paceline.cost.decoder import site_of
from paceline.errors import PacelineError
from paceline.imagine.decoder import DecoderJob, Precision, Recipe, decoder
from paceline.imagine.decoder import from_document as model_of
from paceline.imagine.transformer import Degrees
from paceline.place.hybrid import PlanQuestion, own_plan
from paceline.place.hybrid.exports import (
    EXPORTS,
    accelerate,
    deepspeed,
    megatron,
    torch_code,
    torchtitan,
)

TINY = model_of({
    "layers": 4, "hidden": 32, "vocab": 64, "sequence": 16,
    "attention": {"kind": "grouped", "heads": 4, "kv_heads": 2},
    "feed_forward": {"kind": "gated", "width": 64},
})  # fmt: skip


def planned(text: str, model: str = "llama3-70b", ranks: int = 64) -> DecoderJob:
    cluster = from_document({"hosts": {"system": "dgx-h100"}}).with_workers(ranks)
    return own_plan(PlanQuestion(decoder(model), site_of(cluster), 128), text)


def flags(job: DecoderJob) -> dict[str, str]:
    lines = megatron(job)["megatron.sh"].splitlines()[1:-1]
    return dict(line.strip().removeprefix("--").partition(" ")[::2] for line in lines)


def test_megatron_gets_the_plan_and_the_model() -> None:
    found = flags(planned("tp=4,pp=4,vp=5,mbs=2"))
    assert found["tensor-model-parallel-size"] == "4"
    assert found["num-virtual-stages-per-pipeline-rank"] == "5"
    assert found["num-query-groups"] == "8"
    assert "use-distributed-optimizer" in found
    routed = flags(planned("pp=4,ep=16", "deepseek-v3"))
    assert routed["expert-model-parallel-size"] == "16"
    assert routed["moe-layer-freq"].startswith("'[0,0,0,1,1")
    assert routed["q-lora-rank"] == "1536"
    assert routed["mtp-num-layers"] == "1"
    stages = routed["pipeline-model-parallel-layout"].strip("'").split("|")
    assert stages == ["E" + 15 * "t", 16 * "t", 16 * "t", 14 * "t" + "mL"]


def test_layers_that_recompute_are_told_to_who_can_choose_them() -> None:
    found = flags(planned("pp=4,vp=5,recompute=full:3"))
    assert (found["recompute-method"], found["recompute-num-layers"]) == ("block", "3")
    script = torch_code(planned("pp=4,recompute=full:2"))["torch_plan.py"]
    assert "'recompute': [0, 1, 20, 21, 40, 41, 60, 61]" in script


def test_torchtitan_gets_overrides_and_a_function_that_sets_the_same() -> None:
    files = torchtitan(planned("tp=8,sharding=full,mbs=2,recompute=full"))
    assert "--parallelism.tensor_parallel_degree 8" in files["torchtitan.sh"]
    space: dict[str, object] = {}
    exec(compile(files["torchtitan_plan.py"], "plan", "exec"), space)
    assert "config.parallelism.tensor_parallel_degree = 8" in files["torchtitan_plan.py"]
    assert "FullAC.Config()" in files["torchtitan_plan.py"]
    assert callable(space["configure"])


READ_BY_TORCHTITAN = """
import json, shlex, sys
from importlib.util import find_spec
from unittest.mock import MagicMock
if find_spec("triton") is None:  # what needs it moves experts' tokens, and nothing here does
    sys.modules["torchtitan.distributed.minimal_async_ep"] = MagicMock()
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from torchtitan.config import ConfigManager
from torchtitan.distributed import pipeline_parallel as cut
from torchtitan.models.llama3.config_registry import llama3_70b

folder = Path(sys.argv[1])
lines = (folder / "torchtitan.sh").read_text().splitlines()
words = shlex.split(" ".join(line for line in lines if line[0] == " "))
read = ConfigManager().parse_args(["--module", "llama3", "--config", "llama3_70b", *words])
space = {}
exec((folder / "torchtitan_plan.py").read_text(), space)
made = space["configure"](llama3_70b())
stages = None
if read.parallelism.pipeline_parallel_degree > 1:
    model = SimpleNamespace(layers=[None] * 80)
    ranks = SimpleNamespace(pp=read.parallelism.pipeline_parallel_degree)
    stages = cut._generate_llm_fqn_per_model_part(
        *cut._get_pipeline_metadata(ranks, read.parallelism, model)
    )
told = [[asdict(config.training), asdict(config.parallelism), asdict(config.compile),
         type(config.activation_checkpoint).__qualname__] for config in (read, made)]
named = made.parallelism.module_fqns_per_model_part
print("READ", json.dumps({"both": told, "stages": stages, "named": named}, default=str))
"""


@pytest.mark.slow
@pytest.mark.needs("torchtitan")
@pytest.mark.parametrize(
    "text",
    [
        "tp=8,sharding=full,mbs=2,recompute=full",
        "tp=4,pp=4,recompute=selective",
        "tp=4,pp=8,vp=5,mbs=2",
        "tp=8,cp=2,zero=1",
    ],
)
def test_torchtitan_reads_its_overrides_and_cuts_its_stages_as_planned(
    text: str, tmp_path: Path
) -> None:
    job = planned(text)
    for name, content in torchtitan(job).items():
        (tmp_path / name).write_text(content)
    command = [sys.executable, "-W", "ignore", "-c", READ_BY_TORCHTITAN, str(tmp_path)]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert shown.returncode == 0, shown.stderr[-3000:]
    line = next(line for line in shown.stdout.splitlines() if line.startswith("READ "))
    found = json.loads(line.removeprefix("READ "))
    (training, parallel, _, kept), made = found["both"]
    assert training["global_batch_size"] == 128
    assert training["seq_len"] == job.sequence
    d = job.degrees
    at_once = parallel["pipeline_parallel_microbatch_size"] if d.pipeline > 1 else None
    assert at_once in (None, job.recipe.micro_batch)
    passes = training["local_batch_size"] // job.recipe.micro_batch
    assert passes == (job.microbatches if d.pipeline > 1 else 1)
    names = ("data_parallel_replicate_degree", "data_parallel_shard_degree",
             "tensor_parallel_degree", "context_parallel_degree",
             "pipeline_parallel_degree")  # fmt: skip
    assert math.prod(parallel[name] for name in names) == 64
    named = found["named"]
    assert found["stages"] == named, "overrides and configure() cut alike"
    if named:
        sizes = [sum(name.startswith("layers.") for name in stage) for stage in named]
        assert sizes == [len(chunk) for chunk in job.chunks]
    parallel["module_fqns_per_model_part"] = named
    assert made == [training, parallel, found["both"][0][2], kept]


def test_overrides_of_torchtitan_say_what_they_cannot() -> None:
    uneven = torchtitan(planned("tp=4,pp=16"))["torchtitan.sh"]
    sizes = [len(chunk) for chunk in planned("tp=4,pp=16").chunks]
    assert len(set(sizes)) == 1
    assert "configure()" not in uneven
    cluster = from_document({"hosts": {"system": "dgx-h100"}}).with_workers(48)
    asked = PlanQuestion(decoder("llama3-70b"), site_of(cluster), 96)
    job = own_plan(asked, "tp=4,pp=12")
    assert len({len(chunk) for chunk in job.chunks}) > 1
    files = torchtitan(job)
    assert f"the plan of {[len(chunk) for chunk in job.chunks]}" in files["torchtitan.sh"]
    assert "'lm_head'" in files["torchtitan_plan.py"]
    narrow = own_plan(replace(asked, precision=Precision.FP8_BLOCK), "tp=4")
    files = torchtitan(narrow)
    assert "fp8-mx are set by configure()" in files["torchtitan.sh"]
    assert "MXFP8LinearConverter" in files["torchtitan_plan.py"]
    with pytest.raises(PacelineError, match="trains in bf16, fp8-cs, fp8-mx, nvfp4"):
        torchtitan(own_plan(replace(asked, precision=Precision.FP8), "tp=4"))


def test_deepspeed_gets_batches_that_multiply_to_the_whole() -> None:
    found = json.loads(deepspeed(planned("tp=8,zero=3,mbs=2"))["deepspeed.json"])
    product = found["train_micro_batch_size_per_gpu"] * found["gradient_accumulation_steps"]
    assert product * 8 == found["train_batch_size"] == 128
    assert found["zero_optimization"]["stage"] == 3


def test_accelerate_gets_sizes_that_multiply_to_all_processes() -> None:
    found = yaml.safe_load(accelerate(planned("tp=8,zero=3"))["accelerate.yaml"])
    sizes = found["parallelism_config"]
    assert sizes["parallelism_config_dp_shard_size"] * 8 == found["num_processes"] == 64


@pytest.mark.needs("transformers")
def test_accelerate_reads_its_file(tmp_path: Path) -> None:
    from accelerate.commands.config.config_args import load_config_from_file

    path = tmp_path / "accelerate.yaml"
    path.write_text(accelerate(planned("tp=8,zero=3,recompute=full"))["accelerate.yaml"])
    found = load_config_from_file(str(path))
    assert found.fsdp_config["fsdp_activation_checkpointing"] is True
    assert found.parallelism_config["parallelism_config_tp_size"] == 8


@pytest.mark.parametrize(
    ("framework", "text", "model", "said"),
    [
        ("accelerate", "tp=4,pp=4", "llama3-70b", "cannot run pipeline=4"),
        ("deepspeed", "tp=4,pp=4,vp=5", "llama3-70b", "no interleaved schedule"),
        ("deepspeed", "pp=4,zero=2", "llama3-70b", "ZeRO 0 and 1"),
        ("torch", "ep=8", "qwen3-30b-a3b", "cannot run expert=8"),
        ("torch", "pp=4", "deepseek-v3", "no latent attention"),
        ("torch", "recompute=selective", "llama3-70b", "recomputes whole layers"),
        ("torchtitan", "recompute=full:3", "llama3-70b", "all layers or none.*3 of each chunk"),
        ("deepspeed", "recompute=selective", "llama3-70b", "no selective recomputation"),
        ("accelerate", "recompute=full:3", "llama3-70b", "all layers or none"),
    ],
)
def test_what_a_framework_cannot_do_is_refused(
    framework: str, text: str, model: str, said: str
) -> None:
    with pytest.raises(PacelineError, match=said):
        EXPORTS[framework](planned(text, model))


@pytest.mark.parametrize(
    ("framework", "said"),
    [("torch", "trains in fp32 and bf16; the plan is for fp8"), ("deepspeed", "has no fp8")],
)
def test_a_type_that_a_framework_does_not_train_in_is_refused(framework: str, said: str) -> None:
    cluster = from_document({"hosts": {"system": "dgx-h100"}}).with_workers(8)
    asked = PlanQuestion(decoder("llama3-8b"), site_of(cluster), 64, precision=Precision.FP8)
    with pytest.raises(PacelineError, match=said):
        EXPORTS[framework](own_plan(asked, "tp=8"))


def run(tmp_path: Path, degrees: Degrees, **settings: object) -> list[float]:
    recipe = Recipe(8, **{"precision": Precision.FP32, **settings})  # type: ignore[arg-type]
    job = DecoderJob(TINY, degrees, recipe)
    path = tmp_path / f"plan-{degrees.world}.py"
    path.write_text(EXPORTS["torch"](job)["torch_plan.py"])
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node",
               str(degrees.world), "--standalone", str(path), "--steps", "3"]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert shown.returncode == 0, shown.stderr[-3000:]
    line = next(line for line in shown.stdout.splitlines() if line.startswith("losses"))
    return [float(value) for value in line.split()[1:]]


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.needs("torch")
def test_exported_code_trains_the_same_model_under_every_layout(tmp_path: Path) -> None:
    from paceline.graph.schedules import Schedule
    from paceline.imagine.decoder import Sharding
    from paceline.imagine.transformer import Recompute

    alone = run(tmp_path, Degrees(), sharding=Sharding.NONE)
    shared = run(tmp_path, Degrees(1, 2, 2), micro_batch=2, sharding=Sharding.NONE)
    assert shared == pytest.approx(alone, rel=1e-3)
    replicas = run(tmp_path, Degrees(2, 1, 2), micro_batch=2, sharding=Sharding.NONE)
    assert replicas == pytest.approx(alone, rel=1e-3)
    kept = run(tmp_path, Degrees(2), micro_batch=2, sharding=Sharding.OPTIMIZER)
    assert kept == pytest.approx(alone, rel=1e-3)
    turned = run(
        tmp_path, Degrees(2, 1, 2), sharding=Sharding.FULL, recompute=Recompute.FULL, recomputed=1,
        schedule=Schedule.ONE_F_ONE_B,
    )  # fmt: skip
    assert turned == pytest.approx(alone, rel=1e-3)


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.needs("torch")
def test_exported_code_trains_in_the_type_that_was_planned(tmp_path: Path) -> None:
    from paceline.imagine.decoder import Sharding

    whole = run(tmp_path, Degrees(), sharding=Sharding.NONE)
    for degrees, sharding in ((Degrees(), Sharding.NONE), (Degrees(2), Sharding.FULL)):
        narrow = run(tmp_path, degrees, sharding=sharding, precision=Precision.BF16)
        assert narrow == pytest.approx(whole, rel=0.02)
        assert narrow != pytest.approx(whole, rel=1e-5), "16 bits round"
