"""Weights & Biases: figures in a run, with `paceline/training_step` as their axis.

An axis of their own, because W&B drops figures of a step that is behind the run's last.
"""

from collections.abc import Mapping
from typing import Any

AXIS = "paceline/training_step"


class WandB:
    """Logs to the given run, or to the one that `wandb.init` has begun in this process."""

    def __init__(self, run: Any = None) -> None:
        if run is None:
            import wandb

            run = wandb.run
        if run is None:
            raise ValueError("no run of W&B has begun; call wandb.init() first, or give a run")
        run.define_metric(AXIS, hidden=True)
        run.define_metric("paceline/*", step_metric=AXIS)
        self._run = run

    def __call__(self, figures: Mapping[str, float], step: int) -> None:
        self._run.log({**figures, AXIS: step})
