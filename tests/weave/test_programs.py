"""The programs that ship, against torch's own optimizers."""

import numpy as np
import pytest

from paceline.graph import DType
from paceline.weave.interpreter import Parts, distribute, interpret
from paceline.weave.layout import Group
from paceline.weave.program import Program
from paceline.weave.programs.adam import adam, adamw

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


@pytest.mark.parametrize(("dtype", "storage"), DTYPES)
def test_adamw_is_torchs_after_100_steps(dtype, storage) -> None:
    ours = run(adamw(SIZE, GROUP, dtype=dtype), {"lr": 0.01}, storage)
    w, state = reference(lambda p: torch.optim.AdamW(p, lr=0.01), storage)
    assert close(ours["w"], w)
    assert close(ours["m"], state["exp_avg"])
    assert close(ours["v"], state["exp_avg_sq"])
