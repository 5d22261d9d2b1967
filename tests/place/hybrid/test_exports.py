"""Exported plans: each framework's words, and PyTorch code that runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from paceline.cluster import from_document
from paceline.cost.decoder import site_of
from paceline.errors import PacelineError
from paceline.imagine.decoder import DecoderJob, Recipe, decoder
from paceline.imagine.decoder import from_document as model_of
from paceline.imagine.transformer import Degrees
from paceline.place.hybrid import Question, own_plan
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
    return own_plan(Question(decoder(model), site_of(cluster), 128), text)


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


def run(tmp_path: Path, degrees: Degrees, **settings: object) -> list[float]:
    job = DecoderJob(TINY, degrees, Recipe(8, **settings))  # type: ignore[arg-type]
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
