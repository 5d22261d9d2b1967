"""LAMB as a plain torch optimizer: what the fused program is checked against.

You et al. 2020, algorithm 2, with Adam's bias correction. Torch ships none.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch


class Lamb(torch.optim.Optimizer):
    """Layer-wise adaptive moments: Adam's direction, scaled by |w| / |direction| per tensor."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, group)
        return loss

    def _update(self, p: torch.Tensor, group: dict[str, Any]) -> None:
        state, (beta1, beta2) = self.state[p], group["betas"]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
        state["step"] += 1
        t, m, v = float(state["step"]), state["exp_avg"], state["exp_avg_sq"]
        assert p.grad is not None
        m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
        v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
        direction = (m / (1 - beta1**t)) / ((v / (1 - beta2**t)).sqrt() + group["eps"])
        direction = direction.add_(p, alpha=group["weight_decay"])
        norm_w, norm_d = float(p.norm()), float(direction.norm())
        trust = norm_w / norm_d if norm_w > 0 and norm_d > 0 else 1.0
        p.sub_(direction, alpha=group["lr"] * trust)
