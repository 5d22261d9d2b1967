"""Makes the pictures of docs/learn.md anew, from kept runs (matplotlib, the extra `pictures`).

    python -m benchmarks.learning_pictures

What skew costs, and what meeting more seldom saves, come from `accuracy/skew.py`; what slow links
cost from `accuracy/time_to_target.py`, measured in the lab. A line is the mean of the seeds, a band
their range. A picture whose runs are not all there is not made, and says what is missing.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.accuracy import learning, learning_lab, skew
from benchmarks.accuracy.time_to_target import FAST, LOCAL, SLOW, SYNCHRONOUS, WHOLE

IMAGES = Path(__file__).parents[1] / "docs" / "images"
INK = "#808590"  # seen on light and on dark
COLOURS = ("#2f7ed8", "#e0803a", "#3aa76d", "#b05fc9")
FULL = "by_class(skew=1.0)"
NORMS = {"cnn-batch-norm": "batch normalisation", "cnn-group-norm": "group normalisation"}
SETTINGS = {
    "svg.hashsalt": "paceline", "font.size": 9, "axes.edgecolor": INK, "axes.labelcolor": INK,
    "xtick.color": INK, "ytick.color": INK, "text.color": INK, "axes.spines.top": False,
    "axes.spines.right": False, "legend.frameon": False, "grid.color": INK, "grid.alpha": 0.25,
}  # fmt: skip

Row = dict[str, Any]


class Missing(Exception):
    """Runs that a picture needs have not been made."""


def main() -> None:
    made: dict[str, Callable[[Any], None]] = {
        "learn-normalisation": normalisation,
        "learn-bytes": bytes_saved,
        "learn-slow-links": slow_links,
    }
    plt.rcParams.update(SETTINGS)
    for name, draw in made.items():
        figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
        try:
            draw(axes)
        except Missing as missing:
            print(f"{name}: {missing}")
            continue
        axes.grid(True)
        axes.legend(loc="lower right")
        file = IMAGES / f"{name}.svg"
        figure.savefig(file, transparent=True, metadata={"Date": None})
        print(file)


def normalisation(axes: Any) -> None:
    """Accuracy over rounds, equal data and full skew, by the kind of normalisation."""
    for colour, (model, title) in zip(COLOURS, NORMS.items()):
        for partition, style in (("equal", "--"), (FULL, "-")):
            rows = of(skew.arm(skew.PLAIN, partition, skew.STEPS, model))
            told = "equal data" if partition == "equal" else "a client has two classes"
            band(axes, rows, "round", Look(colour, style, f"{title}, {told}"))
    axes.set(xlabel="rounds of synchronous SGD", ylabel="accuracy", ylim=(0.3, 0.95))


def bytes_saved(axes: Any) -> None:
    """Accuracy over bytes sent: synchronous, and as a skew-aware controller has it."""
    ways = {skew.PLAIN: "synchronous", skew.MET: "SkewScout over sparse gradients"}
    for colour, (text, title) in zip(COLOURS, ways.items()):
        for share, style in ((0.2, "--"), (1.0, "-")):
            rows = of(skew.arm(text, f"by_class(skew={share})", skew.STEPS))
            band(axes, rows, "sent_bytes", Look(colour, style, f"{title}, skew {share:g}"))
    axes.set(xlabel="bytes sent by all clients", ylabel="accuracy", ylim=(0.7, 0.92))
    axes.set_xscale("log")


def slow_links(axes: Any) -> None:
    """Accuracy over seconds in the lab: the same trainings over slow and over quick links."""
    kept = learning_lab.kept_rows()
    for colour, (text, rounds) in zip(COLOURS, (SYNCHRONOUS, LOCAL)):
        for place, style in ((SLOW, "-"), (FAST, "--")):
            setting = learning_lab.Setting(place, text, WHOLE, rounds)
            row = kept.get(setting.text(learning_lab.MEASURED_SEEDS[0]))
            if row is None:
                raise Missing(
                    f"{text} over {place.mbit[0]:g} Mbit/s: run accuracy/time_to_target.py"
                )
            seconds = [row["ended_s"][r - 1] for r in row["round"]]
            told = f"{text.partition('(')[0]}, {place.mbit[0]:g} Mbit/s"
            axes.plot(seconds, row["accuracy"], style, color=colour, label=told)
    axes.set(xlabel="seconds", ylabel="accuracy", ylim=(0.3, 0.95))
    axes.set_xscale("log")


class Look:
    """How a line is drawn, and what it is called."""

    def __init__(self, colour: str, style: str, title: str) -> None:
        self.colour, self.style, self.title = colour, style, title


def of(arm: learning.Arm) -> list[Row]:
    """Its kept runs, of all seeds."""
    kept = json.loads(learning.KEPT.read_text())
    rows = [kept.get(arm.text(seed)) for seed in learning.SEEDS]
    if None in rows:
        raise Missing(f"{asdict(arm)}: run accuracy/skew.py")
    return rows


def band(axes: Any, rows: Sequence[Row], over: str, look: Look) -> None:
    count = min(len(row["accuracy"]) for row in rows)
    places = np.mean([row[over][:count] for row in rows], axis=0)
    heights = np.array([row["accuracy"][:count] for row in rows])
    axes.plot(places, heights.mean(axis=0), look.style, color=look.colour, label=look.title)
    axes.fill_between(
        places, heights.min(axis=0), heights.max(axis=0), color=look.colour, alpha=0.15, lw=0
    )


if __name__ == "__main__":
    main()
