"""The programs that ship, against torch's own optimizers."""

import inspect

import numpy as np
import pytest

from paceline.graph import DType
from paceline.weave.interpreter import Parts, distribute, interpret
from paceline.weave.layout import Group
from paceline.weave.program import Program
from paceline.weave.programs import (
    adam,
    adamw,
    clipped,
    hand_over,
    lamb,
    mlp,
    self_attention,
    sgd,
)
from paceline.weave.programs.megatron import epilogue

torch = pytest.importorskip("torch", reason="torch's optimizers are the reference here")
SIZE, STEPS, RANKS = 23, 100, 2
GROUP = Group.world(RANKS)


def gradients(dtype: np.dtype) -> np.ndarray:
    """[step, rank, element]: sizes from 1e-3 to 1e3, signs mixed."""
    rng = np.random.default_rng(0)
    scale = 10.0 ** rng.integers(-3, 4, SIZE)
    return (rng.standard_normal((STEPS, RANKS, SIZE)) * scale).astype(dtype)


def start(dtype: np.dtype) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(SIZE).astype(dtype)


def run(step: Program, numbers: dict[str, float], dtype: np.dtype) -> dict[str, np.ndarray]:
    """State after STEPS steps from zero state, gradients as above."""
    values = {s.name: np.zeros(s.type.shape, dtype) for s in step.inputs}
    values |= {"w": start(dtype), **numbers}
    held: dict[str, Parts] = distribute(step, values | {"g": gradients(dtype)[0]})
    for t, per_rank in enumerate(gradients(dtype), start=1):
        held |= {"g": tuple(per_rank)}
        if "t" in held:
            held |= {"t": (np.float64(t),) * RANKS}
        result = interpret(step, held)
        held = {s.name: result.parts[s.name] for s in step.inputs}
    return {s.name: result.value(s.name) for s in step.inputs if s.name != "g"}


def reference(make, dtype: np.dtype) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """torch's parameter and state after the same steps on the averaged gradient."""
    w = torch.nn.Parameter(torch.from_numpy(start(dtype)))
    optimizer = make([w])
    for per_rank in gradients(dtype):
        w.grad = torch.from_numpy(per_rank.sum(0) / np.asarray(RANKS, dtype))
        optimizer.step()
    state = {k: v.numpy() for k, v in optimizer.state[w].items() if torch.is_tensor(v)}
    return w.detach().numpy(), state


def close(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.max(np.abs(a - b)) <= 1e-6 * np.max(np.abs(b)))


DTYPES = [(DType.FLOAT32, np.float32), (DType.FLOAT64, np.float64)]


@pytest.mark.parametrize(("dtype", "storage"), DTYPES)
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_is_torchs_after_100_steps(dtype, storage, decay) -> None:
    ours = run(adam(SIZE, GROUP, dtype=dtype, decay=decay), {"lr": 0.01}, storage)
    w, state = reference(lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=decay), storage)
    assert close(ours["w"], w)
    assert close(ours["m"], state["exp_avg"])
    assert close(ours["v"], state["exp_avg_sq"])


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_every_single_number_of_adams_state_is_torchs(decay) -> None:
    """Element by element, not only by the largest: each rounds where torch's kernel rounds."""
    ours = run(adam(SIZE, GROUP, decay=decay), {"lr": 0.01}, np.float32)
    w, state = reference(
        lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=decay, fused=True), np.float32
    )
    np.testing.assert_allclose(ours["w"], w, rtol=1e-6, atol=1e-7)  # steps of 1e-2 may cancel
    np.testing.assert_allclose(ours["m"], state["exp_avg"], rtol=1e-6)
    np.testing.assert_allclose(ours["v"], state["exp_avg_sq"], rtol=1e-6)


@pytest.mark.parametrize(("dtype", "storage"), DTYPES)
def test_adamw_is_torchs_after_100_steps(dtype, storage) -> None:
    ours = run(adamw(SIZE, GROUP, dtype=dtype), {"lr": 0.01}, storage)
    w, state = reference(lambda p: torch.optim.AdamW(p, lr=0.01), storage)
    assert close(ours["w"], w)
    assert close(ours["m"], state["exp_avg"])
    assert close(ours["v"], state["exp_avg_sq"])


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize(("dtype", "storage"), DTYPES)
def test_sgd_is_torchs_after_100_steps(dtype, storage, nesterov) -> None:
    settings = {"momentum": 0.9, "nesterov": nesterov}
    ours = run(sgd(SIZE, GROUP, dtype=dtype, decay=0.01, **settings), {"lr": 1e-4}, storage)
    w, state = reference(
        lambda p: torch.optim.SGD(p, lr=1e-4, weight_decay=0.01, **settings), storage
    )
    assert close(ours["w"], w)
    assert close(ours["m"], state["momentum_buffer"])


def test_plain_sgd_is_torchs() -> None:
    ours = run(sgd(SIZE, GROUP), {"lr": 1e-4}, np.float32)
    assert close(ours["w"], reference(lambda p: torch.optim.SGD(p, lr=1e-4), np.float32)[0])


def test_clipping_by_global_norm_is_torchs() -> None:
    def clipped(parameters):
        optimizer = torch.optim.Adam(parameters, lr=0.01)
        optimizer.register_step_pre_hook(
            lambda *_: torch.nn.utils.clip_grad_norm_(parameters, 0.5) and None
        )
        return optimizer

    ours = run(adam(SIZE, GROUP, dtype=DType.FLOAT64, max_norm=0.5), {"lr": 0.01}, np.float64)
    assert close(ours["w"], reference(clipped, np.float64)[0])


def test_lamb_is_the_papers_algorithm_by_tensor() -> None:
    """Against a few lines of NumPy, one parameter tensor after the other."""
    segments, b1, b2, eps, decay, lr = (5, 1, SIZE - 6), 0.9, 0.999, 1e-6, 0.01, 0.01
    ours = run(lamb(segments, GROUP, dtype=DType.FLOAT64), {"lr": lr}, np.float64)
    w, m, v = start(np.float64), np.zeros(SIZE), np.zeros(SIZE)
    for t, per_rank in enumerate(gradients(np.float64), start=1):
        g = per_rank.mean(0)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        step = (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps) + decay * w
        for a, b in ((0, 5), (5, 6), (6, SIZE)):
            trust = np.linalg.norm(w[a:b]) / np.linalg.norm(step[a:b])
            w[a:b] -= lr * trust * step[a:b]
    assert close(ours["w"], w)
    assert close(ours["v"], v)


@pytest.mark.parametrize("make", [self_attention, mlp])
def test_an_epilogue_is_the_whole_layers_output(make) -> None:
    """x @ weight over all ranks, plus bias, dropped out, plus the residual."""
    rng = np.random.default_rng(2)
    step = make(6, 4, GROUP, p=0.5, dtype=DType.FLOAT64)
    values = {s.name: rng.standard_normal(s.type.shape) for s in step.inputs} | {"seed": 9}
    result = interpret(step, distribute(step, values)).value(step.outputs[0])
    dense = values["x"] @ values["weight"] + values["bias"]
    dropped = result - values["residual"]
    kept = np.abs(dropped) > 1e-12
    assert 0 < kept.sum() < kept.size
    np.testing.assert_allclose(dropped[kept], 2 * dense[kept], rtol=1e-9)


@pytest.mark.parametrize("make", [sgd, adam, lamb, epilogue, hand_over, clipped])
def test_every_program_takes_less_than_30_lines(make) -> None:
    lines = [line for line in inspect.getsource(make).splitlines() if line.strip()]
    assert len(lines) < 30
