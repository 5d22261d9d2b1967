"""Results that `Fakes` remembers are those that torch's fake tensors work out."""

import json
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.nn import functional as F

from paceline.imagine.torch_fakes import Fakes
from paceline.imagine.torch_watch import Watch

TRAIN = Path(__file__).parents[2] / "examples" / "train.py"


def matrices() -> list[Any]:
    a, b = torch.randn(6, 4), torch.randn(4, 6).t()
    c = a + b
    return [c, a.mul_(b), a @ b.t(), torch.cat([a, c], 1), a.split(2, 1), c.t().contiguous(), a]


def layers() -> list[Any]:
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    y = F.conv2d(x, torch.randn(5, 3, 3, 3), padding=1)
    z = F.layer_norm(torch.randn(2, 5, 16), (16,), torch.randn(16))
    return [y, F.max_pool2d(y, 2), z, F.dropout(z, 0.5), z.expand(2, 5, 16).sum(1), y.relu_()]


def updates() -> list[Any]:
    weights, ones = [torch.zeros(3, 3), torch.zeros(5)], [torch.ones(3, 3), torch.ones(5)]
    torch._foreach_add_(weights, ones)
    made = torch._foreach_mul(weights, 2.0)
    return [*weights, *made, weights[0].addcdiv_(ones[0], ones[0], value=0.5)]


def factories() -> list[Any]:
    a = torch.arange(10)
    return [a, torch.zeros(3, dtype=torch.bfloat16), torch.empty_like(a).random_(5), a.double(),
            torch.where(a > 3, 1.0, 2.0), a[2:5].clone(), torch.full((2,), 7),
            torch.tensor([1.0, 2.0]) + 1, torch.tensor([1.0, 2.0]).add_(1)]  # fmt: skip


def facts(tensors: list[Any]) -> list[Any]:
    """All that can be told of fake tensors, and which of them share memory."""
    flat = [one for each in tensors for one in (each if isinstance(each, tuple) else (each,))]
    seen: dict[int, int] = {}
    return [
        (
            tuple(one.shape), one.stride(), one.storage_offset(), one.dtype, one.device,
            one.requires_grad, one.untyped_storage().nbytes(),
            seen.setdefault(one.untyped_storage()._cdata, len(seen)),
        )
        for one in flat
    ]  # fmt: skip


@pytest.mark.parametrize("work", [matrices, layers, updates, factories])
def test_a_known_result_is_what_torch_works_out(work: Callable[[], list[Any]]) -> None:
    with FakeTensorMode():
        expected = facts(work())
    with Fakes() as fakes:
        learnt, known = facts(work()), facts(work())
    assert learnt == known == expected
    assert any(fakes._known.values())


def test_equal_shapes_of_other_strides_or_types_are_other_results() -> None:
    with Fakes():
        for a in (torch.randn(4, 6), torch.randn(6, 4).t(), torch.randn(4, 6).double()):
            made = torch.clone(a)
            assert (made.stride(), made.dtype) == (a.stride(), a.dtype)
        assert (torch.ones(3) + 1).dtype == torch.float32
        assert (torch.ones(3, dtype=torch.int64) * 1).dtype == torch.int64
        assert (torch.ones(3, dtype=torch.int64) * 1.0).dtype == torch.float32


def test_what_depends_on_values_still_fails() -> None:
    with Fakes():
        a = torch.randn(3)
        for _ in range(2):
            with pytest.raises(DataDependentOutputException):
                a.sum().item()


def test_gradients_flow_through_known_results() -> None:
    with Fakes():
        weight = torch.randn(4, 4, requires_grad=True)
        for _ in range(3):
            (torch.randn(2, 4) @ weight).relu().sum().backward()
        assert weight.grad is not None
        assert weight.grad.shape == (4, 4)


def test_a_collective_is_waited_for_by_readers_of_its_memory_and_not_of_its_address() -> None:
    watch = Watch()
    with Fakes():
        filled, gone = torch.empty(4), torch.empty(8)
        address = filled.untyped_storage()._cdata
        watch._writers[address] = (3, weakref.ref(filled.untyped_storage()))
        assert watch._written_by_others([filled]) == [3]
        watch._writers[address] = (5, weakref.ref(gone.untyped_storage()))
        del gone  # what was at this address
        assert watch._written_by_others([filled]) == []


IMAGINED = """
import runpy, sys
from pathlib import Path
import paceline.imagine.torch_session as session
from paceline.imagine.torch_imagine import imagined
from torch._subclasses.fake_tensor import FakeTensorMode
import msgspec
if sys.argv[1] == "torch":
    session.Fakes = lambda: FakeTensorMode(allow_non_fake_inputs=True)
sys.argv = sys.argv[2:]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
train = lambda: runpy.run_path(sys.argv[0], run_name="__main__")
print("result", msgspec.json.encode(imagined(train, session.ImagineSettings(0, 64))).decode())
"""


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mlp", "transformer"])
def test_an_imagined_rank_is_the_same_with_torchs_own_fakes(model: str) -> None:
    def said(fakes: str) -> dict[str, Any]:
        job = [str(TRAIN), "--model", model, "--parallel", "fsdp2"]
        command = [sys.executable, "-c", IMAGINED, fakes, *job]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        lines = [line for line in done.stdout.splitlines() if line.startswith("result")]
        assert lines, done.stderr[-2000:]
        told: dict[str, Any] = json.loads(lines[0].removeprefix("result"))
        return told

    ours, torchs = said("ours"), said("torch")
    for name in ("rows", "memory"):
        assert len(ours[name]) == len(torchs[name])
        differs = [pair for pair in zip(ours[name], torchs[name]) if pair[0] != pair[1]]
        assert not differs[:3]
