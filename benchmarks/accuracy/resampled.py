"""Chance taken for gain, and gain taken for chance: trials of real steps, drawn again in stretches.

`false_accepts` is the share of 1,000 such trials of a job against itself that keep the plan.
`power` is the share that keep one which makes each step 3 % faster, of 200 steps a side, where
steps vary by 3 %. Steps are those of jobs that were measured in the lab; a stretch of six stays
together, so that steps resemble their neighbours as recorded ones do. No clock is read, so that
other work on the machine changes nothing; `--quick` draws a tenth.
"""

import json
import statistics
import sys
from collections.abc import Sequence
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy.cells import KEPT as CELLS
from paceline.trial import Finding, LossCheck, Side, Timetable, gain_of
from paceline.trial.blocks import in_turn, steps_of
from paceline.trial.outcome import finding_of
from paceline.trial.series import SeenStep, Series, samples_of

PAIRS, SIDE, GAIN = 1000, 200, 0.03
VARY = 0.03  # steps vary by so much where power is asked for
STRETCH = 6  # steps that stay neighbours when they are drawn again


def main() -> None:
    options = measure.parser(__doc__ or "", waits=False).parse_args()
    found = figures(PAIRS // 10 if options.quick else PAIRS)
    measure.report("accuracy/resampled", found, options)


def figures(pairs: int) -> dict[str, Any]:
    """Shares of so many trials each, and how far chance may have them off."""
    accepts, power = accepted(0.0, pairs), accepted(GAIN, pairs, vary=VARY)
    return {
        "pairs": pairs,
        "false_accepts": accepts,
        "false_accepts_error": round(sqrt(accepts * (1 - accepts) / pairs), 4),
        "power": power,
        "power_error": round(sqrt(power * (1 - power) / pairs), 4),
    }


def accepted(gain: float, pairs: int, vary: float | None = None) -> float:
    """The share of resampled trials that keep a plan with that gain. `vary`: steps are scaled to
    that deviation."""
    runs = recorded_steps(vary)
    verdicts = [resampled(runs, gain, seed) for seed in range(pairs)]
    return sum(verdict is Finding.FASTER for verdict in verdicts) / pairs


def recorded_steps(vary: float | None) -> list[list[float]]:
    """Logarithms of real steps over their run's median."""
    found = []
    for cell in json.loads(CELLS.read_text()).values():
        for run in cell:
            steps = [log(s / statistics.median(run["steps_ms"])) for s in run["steps_ms"]]
            spread = float(np.std(steps))
            if len(steps) >= 2 * STRETCH and spread > 0:
                found.append([s * vary / spread for s in steps] if vary else steps)
    return found


def resampled(runs: Sequence[Sequence[float]], gain: float, seed: int) -> Finding:
    draw = np.random.default_rng(seed)
    run, blocks = runs[draw.integers(len(runs))], in_turn(Timetable(a_side=SIDE, seed=seed))
    count = steps_of(blocks)
    starts = draw.integers(len(run) - STRETCH + 1, size=count // STRETCH + 1)
    drawn = iter([step for at in starts for step in run[at : at + STRETCH]])
    seen = []
    for place, block in enumerate(blocks):
        for past in range(block.warm + block.steps):
            wall = 1e8 * exp(next(drawn)) / (1 + gain * (block.side is Side.PLAN))
            seen.append(SeenStep(len(seen), wall, wall, place, past >= block.warm))
    found = gain_of(samples_of(Series(blocks, tuple(seen))), 10, seed)
    assert found is not None, "whole rounds"
    return finding_of(found, LossCheck(True, ""))[0]


if __name__ == "__main__":
    main()
