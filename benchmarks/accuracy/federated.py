"""What moving masks and growing models bring at equal upload, against FedAvg.

Fashion-MNIST, three seeds. `feddst_points`: 40 clients, Dirichlet 0.1, five asked in each round;
mean accuracy of FedDST over its last judgements, less that of FedAvg with momentum at the server at
the upload that FedDST ended with. A mask that stays stands beside it (`fixed_points`), and plain
FedAvg, FedProx and SCAFFOLD. These send in 21 rounds what FedDST sends in all, so they are trained
for 28; what FedAvg with momentum has after as many rounds as FedDST, at five times the upload, is
`averaged_in_as_many_rounds`.

`progfed_saved`: of a network whose weights are spread over its blocks, the share of bytes that
ProgFed saves until it has the final accuracy of the whole model less one point, or that a seed does
not get there; rows say how far it got. `progfed_saved_far` is the same less two points. Its setting
was chosen by arithmetic, before any run; others stand beside it. It was run over 80 rounds first,
in which the whole model is far from its plateau.

    python benchmarks/accuracy/federated.py --json
"""

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy import learning
from benchmarks.accuracy.learning import Arm, Row

ROUNDS, BESIDE = 100, 28
LOCAL = "steps=20, batch=32, lr=0.03"
AVERAGED = f"fedavg({LOCAL}, server_momentum=0.9, server_lr=0.3)"
MOVING = f"feddst({LOCAL}, sparsity=0.8, every=10, moves=0.3)"
FIXED = f"feddst({LOCAL}, sparsity=0.8, every=0)"
OTHERS = (f"fedavg({LOCAL})", f"fedprox({LOCAL}, mu=0.1)", "scaffold(steps=20, batch=32, lr=0.05)")
GROWN_ROUNDS = 240
GROWN = "steps=20, batch=32, lr=0.05, last_lr=0.1"
WHOLE = f"fedavg({GROWN})"
CHOSEN = f"progfed({GROWN}, cycle=30, inherits=True)"
GROWING = (CHOSEN, f"progfed({GROWN}, cycle=30, warmup=2)", f"progfed({GROWN}, cycle=30)")


@dataclass(frozen=True)
class Arms:
    """All that is trained; of a tenth of the rounds where it is to be quick."""

    share: float = 1.0

    @property
    def moving(self) -> Arm:
        return _federated(MOVING, round(self.share * ROUNDS))

    @property
    def beside(self) -> tuple[Arm, ...]:
        """At FedDST's upload; a fixed mask sends as little as it."""
        short, long = round(self.share * BESIDE), round(self.share * ROUNDS)
        others = (AVERAGED, *OTHERS)
        return (*(_federated(text, short) for text in others), _federated(FIXED, long))

    @property
    def long(self) -> Arm:
        return _federated(AVERAGED, round(self.share * ROUNDS))

    @property
    def whole(self) -> Arm:
        return _growing(WHOLE, round(self.share * GROWN_ROUNDS))

    @property
    def growing(self) -> tuple[Arm, ...]:
        return tuple(_growing(text, round(self.share * GROWN_ROUNDS)) for text in GROWING)

    @property
    def groups(self) -> tuple[tuple[Arm, ...], ...]:
        """In the order in which they are trained, each group with all seeds."""
        return (
            (self.moving, self.beside[0]),
            (self.whole, self.growing[0]),
            (*self.beside[1:], self.long),
            self.growing[1:],
        )


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    options = learning.parser(__doc__).parse_args(arguments)
    seeds = learning.SEEDS[:1] if options.quick else learning.SEEDS
    arms = Arms(0.1 if options.quick else 1.0)
    wanted = [(arm, seed) for group in arms.groups for seed in seeds for arm in group]
    found = learning.rows(options, wanted)
    told = {
        **_masked(found, arms, options),
        **_grown(found, arms, options),
        "missing": len(wanted) - len(found),
    }
    return measure.report("accuracy/federated", told, options, "torch")


def _federated(text: str, rounds: int) -> Arm:
    return Arm(text, "dirichlet(concentration=0.1)", rounds, clients=40, per_round=5, every=2)


def _growing(text: str, rounds: int) -> Arm:
    """Without growing no head but the last is trained, nor sent."""
    model = "growing" if text.startswith("progfed") else "grown"
    return Arm(text, "dirichlet(concentration=0.5)", rounds, model=model, clients=20, per_round=5,
               every=2)  # fmt: skip


def _masked(found: Sequence[Row], arms: Arms, options: Any) -> dict[str, Any]:
    """All beside FedDST, at its upload. A figure stands where all its seeds do."""
    moving = _by_seed(found, arms.moving)
    rows = {arm: _at_equal_upload(moving, _by_seed(found, arm), arm) for arm in arms.beside}
    points = {
        arm.algorithm: row["points"]
        for arm, row in rows.items()
        if row is not None and learning.whole(found, arm, options)
    }
    return {
        "feddst_points": points.get(AVERAGED),
        "fixed_points": points.get(FIXED),
        "feddst_accuracy": _mean([learning.at_the_end(row) for row in moving.values()]),
        "averaged_in_as_many_rounds": _mean(
            [learning.at_the_end(row) for row in learning.of(found, arms.long)]
        ),
        "masked_rows": [row for row in rows.values() if row is not None],
    }


def _at_equal_upload(
    moving: dict[int, Row], theirs: dict[int, Row], arm: Arm
) -> dict[str, Any] | None:
    pairs = [(moving[seed], theirs[seed]) for seed in theirs if seed in moving]
    if not pairs:
        return None
    beside = [(learning.at_the_end(m), _until(t, m["up_bytes"][-1])) for m, t in pairs]
    points = [100 * (mine - other) for mine, other in beside]
    return {
        "algorithm": arm.algorithm,
        "seeds": len(pairs),
        "accuracy_at_that_upload": _mean([other for _, other in beside]),
        "points": round(statistics.mean(points), 2),  # FedDST above it
        "points_by_seed": [round(each, 2) for each in points],
    }


def _until(row: Row, up_bytes: float) -> float:
    """Mean accuracy over the last judgements up to so much upload."""
    count = sum(each <= up_bytes for each in row["up_bytes"])
    return learning.at_the_end({**row, "accuracy": row["accuracy"][: max(3, count)]})


def _grown(found: Sequence[Row], arms: Arms, options: Any) -> dict[str, Any]:
    whole = _by_seed(found, arms.whole)
    rows = {arm: _saved(whole, _by_seed(found, arm), arm) for arm in arms.growing}
    chosen = rows[arms.growing[0]]
    known = chosen is not None and all(
        learning.whole(found, arm, options) for arm in (arms.whole, arms.growing[0])
    )
    return {
        "progfed_saved": _told(chosen["saved"]) if chosen and known else None,
        "progfed_saved_far": chosen["saved_far"] if chosen and known else None,
        "whole_accuracy": _mean([learning.at_the_end(row) for row in whole.values()]),
        "grown_rows": [row for row in rows.values() if row is not None],
    }


def _told(saved: float | None) -> float | str:
    return "not reached by all seeds (missed)" if saved is None else saved


def _saved(whole: dict[int, Row], mine: dict[int, Row], arm: Arm) -> dict[str, Any] | None:
    pairs = [(whole[seed], mine[seed]) for seed in mine if seed in whole]
    if not pairs:
        return None
    shares = {less: [_share(a, b, less) for a, b in pairs] for less in (0.01, 0.02)}
    return {
        "algorithm": arm.algorithm,
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


def _by_seed(found: Sequence[Row], arm: Arm) -> dict[int, Row]:
    return {row["seed"]: row for row in learning.of(found, arm)}


def _mean(values: Sequence[float]) -> float | None:
    return round(statistics.mean(values), 5) if values else None


if __name__ == "__main__":
    main()
