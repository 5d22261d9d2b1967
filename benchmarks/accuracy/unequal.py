"""Three unequal workers and links in the lab: time to 85 %, DLion against equal batches and top-k.

The workers have 0.8, 0.4 and 0.2 cores and 50, 20 and 5 Mbit/s. Both start from the same weights,
take samples of the same three equal partitions at the same learning rate, 96 in a step of all
workers, and end with the same number of steps at most. The fixed way sends the largest 1 % of each
worker's gradients to all, with what it leaves out added to the next (momentum-corrected, so that it
is no straw man: the codec of `dgc` without its warm-up); DLion deals the batch by speed and fits
each link. `speedup` is the fixed way's time to 85 % over DLion's; `predicted_error` the worst error
of DLion's predicted time, from runs of other seeds without the lab; `error_of_mean` that against
the mean of the seeds, and `seeds_apart` how far these lie apart, the slowest less the fastest over
their mean.

    python benchmarks/accuracy/unequal.py --json
"""

import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy import learning, learning_lab, pipeline_lab
from benchmarks.accuracy.learning_lab import Outcome, Place, Setting

PLACE = Place((0.8, 0.4, 0.2), (50.0, 20.0, 5.0))
TARGET = 0.85
ROUNDS = 2400
SEEDS = (7, 8, 9)
EQUAL = "dgc(batch=32, lr=0.05, ratio=0.01, warmup=0)"
DEALT = "dlion(batch=32, lr=0.05, speeds=(0.8, 0.4, 0.2), links_mbit=(50.0, 20.0, 5.0), send_ms={})"
SEND_MS = 15.0


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    options = learning.parser(__doc__, waits=True).parse_args(arguments)
    if refused := pipeline_lab.why_not():
        return measure.report("accuracy/unequal", {"refused": refused}, options, "torch")
    seeds = SEEDS[:1] if options.quick else SEEDS
    texts = {"fixed": EQUAL, "dlion": DEALT.format(SEND_MS)}
    target = 0.6 if options.quick else TARGET
    found: dict[str, list[Outcome]] = {name: [] for name in texts}
    end = time.monotonic() + 60 * options.budget
    for seed in seeds:
        for name, text in texts.items():
            if time.monotonic() < end:
                found[name].append(_one(options, text, target, seed))
    return measure.report("accuracy/unequal", summary(found, len(seeds)), options, "torch")


def _one(options: Any, text: str, target: float, seed: int) -> Outcome:
    rounds = 60 if options.quick else ROUNDS
    setting = Setting(PLACE, text, "equal", rounds, every=10)
    return learning_lab.outcome(options, setting, target, (seed,))


def summary(found: dict[str, list[Outcome]], seeds: int) -> dict[str, Any]:
    """A figure stands where all its seeds do."""
    times = {name: [each.measured_s for each in rows] for name, rows in found.items()}
    missing = sum(seeds - len(rows) for rows in found.values())
    whole = not missing and all(second is not None for row in times.values() for second in row)
    errors = [each.error for each in found["dlion"] if each.error is not None]
    return {
        "speedup": _ratio(times) if whole else None,
        "predicted_error": max(map(abs, errors)) if errors and not missing else None,
        "error_of_mean": _of_mean(found["dlion"]) if whole else None,
        "seeds_apart": _apart(times["dlion"]) if whole else None,
        "predicted_speedup": _predicted(found) if not missing else None,
        "missing": missing,
        "place": str(PLACE),
        "rows": [{"way": name, **each.document()} for name, rows in found.items() for each in rows],
    }


def _ratio(times: dict[str, list[Any]]) -> float:
    pairs = zip(times["fixed"], times["dlion"])
    return round(statistics.mean(fixed / dealt for fixed, dealt in pairs), 3)


def _of_mean(rows: list[Outcome]) -> float | None:
    predicted_s = rows[0].predicted.seconds
    mean_s = statistics.mean(each.measured_s or 0.0 for each in rows)
    return None if predicted_s is None else round(predicted_s / mean_s - 1, 4)


def _apart(seconds: list[Any]) -> float:
    return round((max(seconds) - min(seconds)) / statistics.mean(seconds), 4)


def _predicted(found: dict[str, list[Outcome]]) -> float | None:
    seconds = [found[name][0].predicted.seconds for name in ("fixed", "dlion")]
    return None if None in seconds else round(seconds[0] / seconds[1], 3)


if __name__ == "__main__":
    main()
