"""From a torch optimizer to programs: which one, with which settings, state and numbers.

A recipe refuses what its program does not do; nothing is approximated. Every program takes the
number `scale`, by which the averaged gradient is multiplied: clipping. Settings that the program
holds fixed (betas, decay, ...) must stay as they are while it is in use; the learning rate is
passed at each step, so schedulers work.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paceline.errors import PacelineError
from paceline.weave.layout import Group
from paceline.weave.program import Program
from paceline.weave.programs import adam, lamb, sgd
from paceline.weave.programs.clip import Clipping

Settings = Mapping[str, Any]
"""A torch parameter group's settings."""


class UnsupportedOptimizer(PacelineError):
    """An optimizer, or an option of one, that no shipped program does."""


@dataclass(frozen=True)
class Recipe:
    """How one class of optimizer becomes a program."""

    fixed: tuple[str, ...]  # settings that the program is made with
    refused: Mapping[str, Any]  # options that must have this value
    state: Callable[[Settings], Mapping[str, str]]  # program's tensor -> key in optimizer.state
    counts: bool  # whether state holds "step", and the program takes the number t
    program: Callable[[tuple[int, ...], Group, Settings], Program]

    def check(self, settings: Settings) -> None:
        for option, allowed in self.refused.items():
            if settings.get(option, allowed) != allowed:
                raise UnsupportedOptimizer(
                    f"the fused step does not do {option}={settings[option]!r}; "
                    f"only {option}={allowed!r}. Use the optimizer without it, or plain DDP"
                )

    def settings_of(self, group: Settings) -> dict[str, Any]:
        return {name: group[name] for name in self.fixed}


def recipe_for(optimizer: Any) -> Recipe:
    """The recipe of an optimizer's exact class."""
    name = type(optimizer).__name__
    home = type(optimizer).__module__.split(".")[0]
    if name not in RECIPES or home not in ("torch", "paceline"):
        raise UnsupportedOptimizer(
            f"no fused step for {type(optimizer).__module__}.{name}; there is one for "
            "torch.optim.SGD, Adam and AdamW, and for paceline.weave.Lamb"
        )
    return RECIPES[name]


def _moments(settings: Settings) -> Mapping[str, str]:
    return {"m": "exp_avg", "v": "exp_avg_sq"}


def _momentum(settings: Settings) -> Mapping[str, str]:
    return {"m": "momentum_buffer"} if settings["momentum"] else {}


def _adam(segments: tuple[int, ...], group: Group, given: Settings) -> Program:
    betas, eps, decay = _floats(given["betas"]), float(given["eps"]), float(given["weight_decay"])
    return adam(
        sum(segments),
        group,
        betas=betas,
        eps=eps,
        decay=decay,
        max_norm=Clipping.BY_FACTOR,
    )


def _adamw(segments: tuple[int, ...], group: Group, given: Settings) -> Program:
    betas, eps, decay = _floats(given["betas"]), float(given["eps"]), float(given["weight_decay"])
    return adam(
        sum(segments),
        group,
        betas=betas,
        eps=eps,
        decay=decay,
        decoupled=True,
        max_norm=Clipping.BY_FACTOR,
    )


def _lamb(segments: tuple[int, ...], group: Group, given: Settings) -> Program:
    betas, eps, decay = _floats(given["betas"]), float(given["eps"]), float(given["weight_decay"])
    return lamb(segments, group, betas=betas, eps=eps, decay=decay, max_norm=Clipping.BY_FACTOR)


def _sgd(segments: tuple[int, ...], group: Group, given: Settings) -> Program:
    return sgd(
        sum(segments),
        group,
        momentum=float(given["momentum"]),
        decay=float(given["weight_decay"]),
        nesterov=bool(given["nesterov"]),
        max_norm=Clipping.BY_FACTOR,
    )


def _floats(pair: Any) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])


_ADAM_FIXED = ("betas", "eps", "weight_decay")
_ADAM_REFUSED = {
    "amsgrad": False,
    "maximize": False,
    "differentiable": False,
    "decoupled_weight_decay": False,
}

RECIPES: Mapping[str, Recipe] = {
    "SGD": Recipe(
        fixed=("momentum", "weight_decay", "nesterov"),
        refused={"dampening": 0, "maximize": False, "differentiable": False},
        state=_momentum,
        counts=False,
        program=_sgd,
    ),
    "Adam": Recipe(_ADAM_FIXED, _ADAM_REFUSED, _moments, True, _adam),
    "AdamW": Recipe(
        _ADAM_FIXED,
        {**_ADAM_REFUSED, "decoupled_weight_decay": True},
        _moments,
        True,
        _adamw,
    ),
    "Lamb": Recipe(_ADAM_FIXED, {}, _moments, True, _lamb),
}
"""By class name; `recipe_for` also checks where the class comes from."""
