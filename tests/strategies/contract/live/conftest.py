"""The contract's live half: two workers train under every strategy, once however many processes
test, and each test looks at what they saw. With PACELINE_TEST_DEVICE=cuda they share a GPU; what
workers saw on another machine is tested with PACELINE_TEST_SEEN=FOLDER, which holds their files.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from paceline.engine import native
from paceline.strategies import Effect, kind_of
from paceline.strategies.coded import Coded
from paceline.strategies.remodelling import Remodelling
from paceline.strategies.seldom import Seldom

WORKER = Path(__file__).parent / "contract_worker.py"
STEPS = 52  # under each strategy: fifty and more, and whole periods of weights that travel

APPLIED = {
    "accumulate": "accumulate(steps=2)",
    "adaptive_topk": "adaptive_topk(ratio=0.1, ratios=(0.1, 0.2))",
    "autocast": "autocast",
    "batch": "batch(factor=2.0)",
    "batchnorm_relu": "batchnorm_relu",
    "block_circulant": "block_circulant(block=4, layers='0|2')",
    "buckets": "buckets(size_bytes=8000, first_size_bytes=0, order='last use')",
    "channels_last": "channels_last",
    "compiled": "compiled",
    "factored": "factored(rank=16, layers='*')",
    "fused_optimizer": "fused_optimizer",
    "fused_step": "fused_step",
    "cache": "cache()",
    "data_workers": "data_workers(count=1, pinned=False)",
    "format": "format(name='raw')",
    "prefetch": "prefetch(batches=1)",
    "low_rank": "low_rank(depth=2, rank=0, energy=0.999, layers='*')",
    "bf16": "bf16",
    "bounded_loss": "bounded_loss(gradients=0.05)",
    "dgc": "dgc(ratio=0.1, warmup=0)",
    "checkpoint": "checkpoint(layers='*', every=2)",
    "compress_activations": "compress_activations(bits=8)",
    "count_sketch": "count_sketch(ratio=0.05, room=6.0)",
    "early_update": "early_update()",
    "fp16": "fp16",
    "late_gradients": "late_gradients()",
    "int8": "int8",
    "onebit": "onebit",
    "fully_sharded": "fully_sharded()",
    "hierarchical": "hierarchical(on_host=2)",
    "overlap_update": "overlap_update()",
    "parameter_server": "parameter_server()",
    "partition": "partition(parts=3)",
    "powersgd": "powersgd(rank=2)",
    "relu_masks": "relu_masks",
    "restructured_norms": "restructured_norms()",
    "priority": "priority()",
    "substitute": "substitute(rules='relu_in_place')",
    "sufficient_factors": "sufficient_factors(rows=8)",
    "tensor_parallel": "tensor_parallel(degree=2)",
    "random_block": "random_block(ratio=0.3, seed=0)",
    "threshold": "threshold(ratio=0.1, every=5)",
    "topk": "topk(ratio=0.1)",
    "local_sgd": "local_sgd(period=4, states=0)",
    "overlap_local_sgd": "overlap_local_sgd(period=2, pullback=0.6, momentum=0.7)",
    "diloco": "diloco(period=4, fragments=2, delay=1, mixing=0.2)",
    "zero1": "zero1()",
}
"""Settings under which each strategy trains the worker's small model."""

VARIANTS = (
    "dgc(ratio=0.1, warmup=0, layerwise=True, clip=1.0)",
    "topk(ratio=0.1, layerwise=True, momentum='before')",
    "threshold(ratio=0.1, layerwise=True, every=5)",
    "random_block(ratio=0.3, layerwise=True, momentum='before')",
    "topk(ratio=0.3, feedback=False)",
)
"""Other settings, whose bytes and whose undoing are held to the same contract."""


TOGETHER = (
    "buckets(size_bytes=1024, order='last use') + partition(parts=3) + priority()",
    "buckets(size_bytes=1024) + partition(parts=2) + priority() + overlap_update()",
    "bf16 + overlap_update()",
    "late_gradients() + buckets(size_bytes=1024) + partition(parts=2) + priority()",
    "late_gradients() + buckets(size_bytes=1024) + overlap_update()",
    "late_gradients(first=2, order='largest') + bf16 + early_update()",
    "buckets(size_bytes=1024) + partition(parts=2) + priority() + early_update()",
    "buckets(size_bytes=1024) + bf16 + early_update()",
    "bf16 + partition(parts=2) + priority()",
    "topk(ratio=0.1) + partition(parts=3)",
    "factored(rank=16, layers='*') + checkpoint(layers='*', every=2)",
)
"""Plans of several strategies."""


IMAGES = {
    "batchnorm_relu": "images",
    "channels_last": "images",
    "relu_masks": "images",
    "restructured_norms": "images",
    "restructured_norms()": "images",
}
"""Strategies for convolutional nets, and their texts: the worker then trains its other model."""


FEW_KERNELS = {
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
}
"""For torch.compile, which else starts a pool of processes and compiles headers ahead, which takes
longer than the kernels of this model."""
NEEDED = {
    **dict.fromkeys(("compiled", "fused_step"), "g++"),
    **dict.fromkeys(("bounded_loss", "restructured_norms"), "native"),
}
"""What strategies that not every machine can apply refuse without: a compiler, the native core."""

IN_NEED = {"bounded_loss"}
"""Lossy where the network loses packets, and loopback loses none."""


def _with_effect(effect: Effect) -> list[str]:
    of_kind = [name for name in APPLIED if kind_of(name).effect is effect]
    if effect is Effect.EXACT:
        return [*of_kind, *IN_NEED]
    # the worker makes its batches itself; loaders that `batch` changes have tests of their own
    return [name for name in of_kind if name not in IN_NEED | {"batch"}]


def _built_on(*kinds: type) -> list[str]:
    return [name for name in APPLIED if issubclass(kind_of(name), kinds)]


def _where_it_can(name: str, value: str) -> Any:
    """A parameter that is skipped where the machine lacks what the strategy needs."""
    if name not in NEEDED:
        return value
    return pytest.param(value, marks=pytest.mark.needs(NEEDED[name]))


ASKED = {
    "exact": [_where_it_can(name, name) for name in _with_effect(Effect.EXACT)],
    "lossy": [_where_it_can(name, name) for name in _with_effect(Effect.LOSSY)],
    "relaxed": _with_effect(Effect.RELAXED),
    "together": TOGETHER,
    "left": [*(_where_it_can(name, text) for name, text in APPLIED.items()), *VARIANTS],
    "sending": [
        *(_where_it_can(name, APPLIED[name]) for name in _built_on(Coded, Seldom)),
        *VARIANTS,
    ],
    "of_layers": [
        *_built_on(Remodelling),
        "late_gradients",
        "sufficient_factors",
        "tensor_parallel",
    ],
}
"""What a test that takes an argument of this name is asked about: strategies, or plans as text."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name in ASKED.keys() & set(metafunc.fixturenames):
        metafunc.parametrize(name, ASKED[name])


@pytest.fixture(scope="session")
def applied() -> Mapping[str, str]:
    """By strategy: with its settings, as the workers were given it."""
    return APPLIED


@pytest.fixture(scope="session")
def steps() -> int:
    """Under each strategy."""
    return STEPS


@pytest.fixture(scope="session")
def beside() -> Callable[[str], str]:
    """Which plain run a strategy's is held against: that of the model which it trains."""
    return lambda text: IMAGES.get(text, "")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two workers saw: plain training, and training under each strategy."""
    if seen := os.environ.get("PACELINE_TEST_SEEN"):
        return _seen(Path(seen))
    pytest.importorskip("torch")
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    folder = shared / "contract"
    with (shared / "contract.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "rank-1.json").exists():
            folder.mkdir(exist_ok=True)
            _train(folder)
    return _seen(folder)


def _seen(folder: Path) -> list[dict[str, Any]]:
    files = [folder / f"rank-{rank}.json" for rank in range(2)]
    return [json.loads(file.read_text(), object_hook=Seen) for file in files]


class Seen(dict[str, Any]):
    """What a worker saw of one training. Where it could not train so on a GPU, a test that asks
    for it is skipped with the reason."""

    def __missing__(self, key: str) -> Any:
        if "not here" in self:
            pytest.skip(self["not here"])
        if "failed" in self:
            pytest.fail(self["failed"])
        raise KeyError(key)


def _train(folder: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    plans = [*_applied_here(), *VARIANTS, *TOGETHER]
    done = subprocess.run(
        [*command, str(WORKER), str(folder), str(STEPS), "--beside", *plans],
        capture_output=True,
        text=True,
        env={**os.environ, **FEW_KERNELS},
    )
    assert done.returncode == 0, done.stderr[-4000:]


def _applied_here() -> list[str]:
    present = {
        "g++": shutil.which(os.environ.get("CXX", "g++")) is not None,
        "native": native() is not None,
    }
    return [text for name, text in APPLIED.items() if present.get(NEEDED.get(name, ""), True)]
