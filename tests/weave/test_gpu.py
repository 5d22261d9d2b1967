"""Triton kernels: what they refuse, and that Triton's interpreter gives what the program means."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.graph import DType
from paceline.weave.gpu.generate import generate
from paceline.weave.layout import Group
from paceline.weave.program import FusedGroup, Program
from paceline.weave.programs import adam, lamb, mlp
from paceline.weave.rules import WeaveError
from paceline.weave.schedules import fully_fused

TWO = Group.world(2)


def kernel(program: Program) -> FusedGroup:
    return next(x for x in program.launches() if x.is_fused)


def test_fused_adam_loads_every_gradient_once_and_stores_every_weight_once() -> None:
    (source,) = generate(kernel(fully_fused(adam(100, TWO))))
    assert source.peers == ("g", "w")
    assert source.own == ("m", "v", "w")
    assert source.text.count("tl.load(peer + at") == 1
    assert source.text.count("tl.store(peer + at") == 1
    assert source.text.count("tl.store(") == 3


def test_fused_lamb_is_two_kernels_and_norms_go_from_one_to_the_other() -> None:
    first, second = generate(kernel(fully_fused(lamb((3, 4), TWO))))
    assert len(first.parts) == 2
    assert (first.tables, second.parts) == ((), ())
    assert len(second.tables) == 1
    assert (first.peers, second.peers) == (("g",), ("w",))
    assert "tl.store(peer + at" not in first.text


def test_a_slice_is_cut_into_blocks_within_segments() -> None:
    pytest.importorskip("torch", reason="launches take torch tensors")
    from paceline.weave.gpu.launch import VectorSlice

    assert VectorSlice(0, 2, (5, 6), 4).blocks() == [(0, 4, 0), (4, 1, 0), (5, 1, 1)]
    assert VectorSlice(1, 2, (5, 6), 4).blocks() == [(0, 4, 1), (4, 1, 1)]
    assert VectorSlice(2, 3, (1, 1), 4).blocks() == []


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (fully_fused(mlp(4, 6, TWO)), "kernels take vectors"),
        (fully_fused(adam(9, TWO, dtype=DType.FLOAT64)), "not FLOAT64"),
    ],
)
def test_what_one_block_cannot_compute_is_refused(program, reason) -> None:
    with pytest.raises(WeaveError, match=reason):
        generate(kernel(program))


def test_without_a_gpu_the_back_end_says_so() -> None:
    torch = pytest.importorskip("torch", reason="the back end runs torch")
    from paceline.weave.backends import backend

    runner = backend("triton")
    if not torch.cuda.is_available():
        assert "no GPU here" in str(runner.capabilities())
    assert runner.refusal(fully_fused(adam(9, TWO))) is None
    assert "fuse it into one kernel" in str(runner.refusal(adam(9, TWO)))


def test_tritons_interpreter_gives_what_the_program_means(tmp_path) -> None:
    pytest.importorskip("torch", reason="kernels take torch tensors")
    pytest.importorskip("triton", reason="triton is not installed: pip install triton")
    script = Path(__file__).parent / "triton_interpreted.py"
    subprocess.run(
        [sys.executable, script, tmp_path],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        check=True,
        timeout=120,
    )
