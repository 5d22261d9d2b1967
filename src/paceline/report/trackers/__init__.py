"""Figures for trackers of experiments: one file per tracker, none of which needs another's package.

    tracker = TensorBoard("runs/board")
    tracker(prediction_figures(found), step=0)
    tracker(verdict_figures(verdict), step=100)

A tracker is called with figures by name and the step of the training that they are of.
"""

from collections.abc import Callable, Mapping

from paceline.report.trackers.figures import (
    measured_figures,
    prediction_figures,
    step_figures,
    verdict_figures,
)

Tracker = Callable[[Mapping[str, float], int], None]
"""Writes figures, at a step of the training."""

__all__ = [
    "Tracker",
    "measured_figures",
    "prediction_figures",
    "step_figures",
    "verdict_figures",
]
