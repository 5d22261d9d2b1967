"""Trainings as GPUs run them, one after another in one process, each recorded.

    python gpu.py FOLDER JOB ...
    torchrun --nproc-per-node 2 gpu.py FOLDER JOB ...

A job is `model.type.mode`: resnet50, decoder (12 layers, batches that fill the device) or narrow
(the same with a batch of one, where the host sets the pace); float32 or bf16; eager or compiled.
Each is timed, recorded into FOLDER/JOB and timed again: torch leaves NVIDIA's CUPTI attached, so
behind a recording every launch takes longer. FOLDER/JOB.json holds these steps, and those under
each of `--plans`, which take turns with plain ones before the recording. `--tiny` shrinks the
models so that a processor can run them; with `--bare` nothing is recorded or kept.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

import paceline

RECORDED, PLAIN = 4, 8
STEPS = 50  # of a recorded job
BLOCKS, BLOCK = 7, 8  # rounds of each plan, and steps in each block
RANK = int(os.environ.get("RANK", "0"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("jobs", nargs="+")
    parser.add_argument("--plans", nargs="*", default=[], help="strategies to try in each job")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--bare", action="store_true", help="record and keep nothing")
    options = parser.parse_args()
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo")  # NCCL takes no two workers on one device
    for job in options.jobs:
        told = run(job, options)
        if RANK == 0 and not options.bare:
            options.folder.mkdir(parents=True, exist_ok=True)
            (options.folder / f"{job}.json").write_text(json.dumps(told))
        if RANK == 0:
            print(json.dumps({"job": job, **told}), flush=True)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def run(job: str, options: argparse.Namespace) -> dict[str, Any]:
    """One job timed, under each plan too, then recorded, and timed once more."""
    made, folder = training(job, tiny=options.tiny), options.folder / job
    asked = paceline.record(folder, steps=RECORDED, plain=PLAIN)
    before = [block_ms(made) for _ in range(BLOCKS)]
    plans = {text: under(made, text) for text in options.plans}
    with nullcontext() if options.bare else asked:
        for _ in range(STEPS):
            made.step()
    after = [block_ms(made) for _ in range(BLOCKS)]
    return {"before_ms": before, "alone_ms": after, "plans": plans}


def under(made: "Training", text: str) -> dict[str, Any]:
    """Steps with the plan and without it, in turn; or why it is refused."""
    took: dict[str, list[float]] = {"plain_ms": [], "plan_ms": []}
    try:
        for _ in range(BLOCKS):
            took["plain_ms"].append(block_ms(made))
            with paceline.applied(text.split(" + "), made.model, made.optimizer):
                took["plan_ms"].append(block_ms(made))
    except paceline.PacelineError as error:
        return {"refused": str(error)}
    return took


def block_ms(made: "Training") -> float:
    """A step's share of a block of steps, from an idle device to an idle device."""
    for _ in range(2):
        made.step()
    synchronize()
    begun = time.perf_counter()
    for _ in range(BLOCK):
        made.step()
    synchronize()
    return (time.perf_counter() - begun) / BLOCK * 1e3


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


@dataclass(frozen=True)
class Training:
    """A model, its optimizer and its step."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: Callable[[], None]


def training(job: str, *, tiny: bool) -> Training:
    name, dtype, mode = job.split(".")
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, inputs, targets = MODELS[name](tiny)
    model, inputs, targets = model.to(device), inputs.to(device), targets.to(device)
    if dist.is_initialized():
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    called = torch.compile(model) if mode == "compiled" else model
    low = torch.autocast(device, torch.bfloat16) if dtype == "bf16" else nullcontext()

    def step() -> None:
        optimizer.zero_grad()
        with low:
            loss = functional.cross_entropy(called(inputs).float(), targets)
        loss.backward()
        optimizer.step()

    return Training(model, optimizer, step)


Made = tuple[nn.Module, torch.Tensor, torch.Tensor]


def resnet50(tiny: bool) -> Made:
    batch, side = (2, 32) if tiny else (128, 224)
    return ResNet50(), torch.randn(batch, 3, side, side), torch.randint(1000, (batch,))


def decoder(tiny: bool, batch: int = 8) -> Made:
    width, length, words = (64, 32, 256) if tiny else (1024, 1024, 32768)
    seen = torch.randint(words, (batch, length))
    return Decoder(width, length, words), seen, torch.randint(words, (batch * length,))


LAYERS, HEADS = 12, 16


class Block(nn.Module):
    """Attention that sees the past alone, and a feed-forward part."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.all, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = (*x.shape[:-1], HEADS, x.shape[-1] // HEADS)
        heads = (part.view(shape).transpose(1, 2) for part in self.all(self.first(x)).chunk(3, -1))
        seen = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        return x + self.narrow(functional.gelu(self.wide(self.second(x))))


class Decoder(nn.Module):
    def __init__(self, width: int, length: int, words: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Block(width) for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.places.weight[: words.shape[1]]
        return self.head(self.norm(self.layers(x))).flatten(0, 1)


class Bottleneck(nn.Module):
    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        out = 4 * inner
        self.conv1, self.bn1 = convolution(channels, inner, 1), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = convolution(inner, inner, 3, stride), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = convolution(inner, out, 1), nn.BatchNorm2d(out)
        self.relu, self.beside = nn.ReLU(inplace=True), None
        if stride > 1 or channels != out:
            self.beside = nn.Sequential(convolution(channels, out, 1, stride), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.relu(self.bn1(self.conv1(x)))
        made = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(made)))))
        made += x if self.beside is None else self.beside(x)
        return self.relu(made)


def convolution(channels: int, out: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False)


class ResNet50(nn.Sequential):
    def __init__(self) -> None:
        layers: list[nn.Module] = [convolution(3, 64, 7, 2), nn.BatchNorm2d(64)]
        layers += [nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        channels = 64
        for inner, count, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for at in range(count):
                layers.append(Bottleneck(channels, inner, 1 if at else first))
                channels = 4 * inner
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


MODELS: dict[str, Callable[[bool], Made]] = {
    "resnet50": resnet50,
    "decoder": decoder,
    "narrow": lambda tiny: decoder(tiny, 1),
}


if __name__ == "__main__":
    main()
