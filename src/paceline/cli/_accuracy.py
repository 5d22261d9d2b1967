"""Options of a goal of time to an accuracy, which `search` and `tune` share."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.cli._question import OptionError

if TYPE_CHECKING:
    from paceline.search import Learning

ACCURACY = "time-to-accuracy"


def add_accuracy(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(f"--goal {ACCURACY}")
    group.add_argument("--target", type=float, metavar="SHARE", help="accuracy, such as 0.85")
    group.add_argument("--curve", type=Path, action="append", default=[], metavar="FILE",
                       help="accuracy of the job as it is by optimizer step, from a short "
                       "run: columns step and accuracy (CSV, JSON lines); again for more "
                       "seeds")  # fmt: skip
    group.add_argument("--noise", type=Path, metavar="FILE",
                       help="gradient noise scale from `paceline learn noise`, without which other "
                       "batches are refused")  # fmt: skip


def learning_of(options: argparse.Namespace, goal: str, workers: int | None) -> "Learning | None":
    """What the goal rests on; None for another goal. `workers` of the job, where they are known:
    the noise scale is then told in batches of as many."""
    from paceline.learn.noise import load_noise
    from paceline.learn.progress import expected
    from paceline.learn.told_curve import read_curve
    from paceline.search import Learning

    if goal != ACCURACY:
        _require_nothing(options)
        return None
    if options.target is None or not options.curve:
        raise OptionError(
            f"--goal {ACCURACY} needs --target SHARE and --curve FILE: the accuracy of the job as "
            "it is by optimizer step, from a short run (columns step and accuracy)"
        )
    progress = expected([read_curve(file) for file in options.curve], options.target)
    if options.noise is None:
        return Learning(progress)
    noise = load_noise(options.noise)
    return Learning(progress, noise.of_workers(workers or noise.workers))


def _require_nothing(options: argparse.Namespace) -> None:
    for name in ("target", "curve", "noise"):
        if getattr(options, name):
            raise OptionError(f"--{name} has an effect with --goal {ACCURACY} alone; give both")
