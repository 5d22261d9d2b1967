"""What moving masks and growing models bring at equal upload, against FedAvg.

Fashion-MNIST, three seeds. `feddst_points`: 40 clients, Dirichlet 0.1, five asked in each round;
mean accuracy of FedDST over its last judgements, less that of FedAvg with momentum at the server at
the upload that FedDST ended with. A mask that stays stands beside it (`fixed_points`), and plain
FedAvg, FedProx and SCAFFOLD.

`progfed_saved`: of a network whose weights are spread over its blocks, the share of bytes that
ProgFed saves until it has the final accuracy of the whole model less one point; None where it does
not get there, with how far it got. `progfed_saved_far` is the same less two points.

    python benchmarks/accuracy/federated.py --json
"""

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy import learning
from benchmarks.accuracy.learning import Arm, Row

ROUNDS = 150
LOCAL = "steps=20, batch=32, lr=0.03"
AVERAGED = f"fedavg({LOCAL}, server_momentum=0.9, server_lr=0.3)"
MOVING = f"feddst({LOCAL}, sparsity=0.8, every=10, moves=0.3)"
FIXED = f"feddst({LOCAL}, sparsity=0.8, every=0)"
OTHERS = (f"fedavg({LOCAL})", f"fedprox({LOCAL}, mu=0.1)", "scaffold(steps=20, batch=32, lr=0.05)")
GROWN_ROUNDS = 120
GROWN = "steps=20, batch=32, lr=0.05, last_lr=0.1"
WHOLE = f"fedavg({GROWN})"
GROWING = (
    f"progfed({GROWN}, cycle=15, warmup=3)",
    f"progfed({GROWN}, cycle=8, warmup=2)",
    f"progfed({GROWN}, cycle=15)",
)


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    options = learning.parser(__doc__).parse_args(arguments)
    seeds = learning.SEEDS[:1] if options.quick else learning.SEEDS
    scale = 0.1 if options.quick else 1.0
    masked, grown = (round(scale * each) for each in (ROUNDS, GROWN_ROUNDS))
    arms = [federated(t, masked) for t in (MOVING, AVERAGED, FIXED, *OTHERS)]
    arms += [growing(text, grown) for text in (WHOLE, *GROWING)]
    wanted = [(arm, seed) for seed in seeds for arm in arms]
    found = learning.rows(options, wanted)
    told = {**_masked(found), **_grown(found), "missing": wanted_less(wanted, found)}
    return measure.report("accuracy/federated", told, options, "torch")


def federated(text: str, rounds: int) -> Arm:
    return Arm(text, "dirichlet(concentration=0.1)", rounds, clients=40, per_round=5, every=2)


def growing(text: str, rounds: int) -> Arm:
    """Without growing no head but the last is trained, nor sent."""
    model = "growing" if text.startswith("progfed") else "grown"
    return Arm(text, "dirichlet(concentration=0.5)", rounds, model=model, clients=20, per_round=5,
               every=2)  # fmt: skip


def wanted_less(wanted: Sequence[Any], found: Sequence[Row]) -> int:
    return len(wanted) - len(found)


def _masked(found: Sequence[Row]) -> dict[str, Any]:
    """All beside FedDST, at its upload."""
    moving = _named(found, MOVING)
    rows = [_at_equal_upload(moving, _named(found, text), text) for text in
            (AVERAGED, FIXED, *OTHERS)]  # fmt: skip
    told = [row for row in rows if row is not None]
    points = {row["algorithm"]: row["points"] for row in told}
    return {
        "feddst_points": points.get(AVERAGED),
        "fixed_points": points.get(FIXED),
        "feddst_accuracy": _mean([learning.at_the_end(row) for row in moving.values()]),
        "masked_rows": told,
    }


def _at_equal_upload(
    moving: dict[int, Row], theirs: dict[int, Row], text: str
) -> dict[str, Any] | None:
    pairs = [(moving[seed], theirs[seed]) for seed in theirs if seed in moving]
    if not pairs:
        return None
    beside = [(learning.at_the_end(m), _until(t, m["up_bytes"][-1])) for m, t in pairs]
    points = [100 * (mine - other) for mine, other in beside]
    return {
        "algorithm": text,
        "seeds": len(pairs),
        "accuracy_at_that_upload": _mean([other for _, other in beside]),
        "accuracy_after_as_many_rounds": _mean([learning.at_the_end(t) for _, t in pairs]),
        "points": round(statistics.mean(points), 2),  # FedDST above it
        "points_by_seed": [round(each, 2) for each in points],
    }


def _until(row: Row, up_bytes: float) -> float:
    """Mean accuracy over the last judgements up to so much upload."""
    count = sum(each <= up_bytes for each in row["up_bytes"])
    return learning.at_the_end({**row, "accuracy": row["accuracy"][: max(3, count)]})


def _grown(found: Sequence[Row]) -> dict[str, Any]:
    whole = _named(found, WHOLE)
    rows = [_saved(whole, _named(found, text), text) for text in GROWING]
    told = [row for row in rows if row is not None]
    best = max((row["saved"] for row in told if row["saved"] is not None), default=None)
    return {
        "progfed_saved": best,
        "progfed_saved_far": max(
            (row["saved_far"] for row in told if row["saved_far"] is not None), default=None
        ),
        "whole_accuracy": _mean([learning.at_the_end(row) for row in whole.values()]),
        "grown_rows": told,
    }


def _saved(whole: dict[int, Row], mine: dict[int, Row], text: str) -> dict[str, Any] | None:
    pairs = [(whole[seed], mine[seed]) for seed in mine if seed in whole]
    if not pairs:
        return None
    shares = {less: [_share(a, b, less) for a, b in pairs] for less in (0.01, 0.02)}
    return {
        "algorithm": text,
        "seeds": len(pairs),
        "accuracy": _mean([learning.at_the_end(row) for _, row in pairs]),
        "same_rounds_saved": round(
            statistics.mean(1 - b["sent_bytes"][-1] / a["sent_bytes"][-1] for a, b in pairs), 3
        ),
        "saved": _all_mean(shares[0.01]),
        "saved_far": _all_mean(shares[0.02]),
        "saved_by_seed": shares[0.01],
    }


def _share(whole: Row, mine: Row, less: float) -> float | None:
    """Of the bytes until both have the whole model's final accuracy, less so much."""
    target = learning.at_the_end(whole) - less
    needed = [_bytes_to(row, target) for row in (whole, mine)]
    return None if None in needed else round(1 - needed[1] / needed[0], 3)


def _bytes_to(row: Row, target: float) -> Any:
    """Until the mean of three judgements in a row is there."""
    values = row["accuracy"]
    for at in range(2, len(values)):
        if statistics.mean(values[at - 2 : at + 1]) >= target:
            return row["sent_bytes"][at]
    return None


def _all_mean(values: Sequence[float | None]) -> float | None:
    """None where one is missing."""
    known = [value for value in values if value is not None]
    return round(statistics.mean(known), 3) if len(known) == len(values) else None


def _named(found: Sequence[Row], text: str) -> dict[int, Row]:
    return {row["seed"]: row for row in found if row["arm"]["algorithm"] == text}


def _mean(values: Sequence[float]) -> float | None:
    return round(statistics.mean(values), 5) if values else None


if __name__ == "__main__":
    main()
