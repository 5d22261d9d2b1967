"""How much accuracy do lossy and relaxed strategies cost, and what do they save?

A small classifier learns Fashion-MNIST on two gloo workers over loopback, under every strategy that
is applied and is not exact, at its default settings, with several seeds; plain training beside it.
`worst_points` is the most that a strategy's mean accuracy lies below plain's, in points. What thins
activations between pipeline stages trains the same classifier in two stages, and its bytes are held
against all activations and their gradients. Trainings are kept in `results/convergence-rows.json`,
so that a run that was cut short goes on.

    python benchmarks/accuracy/convergence.py --json
    python benchmarks/accuracy/convergence.py --budget 10 --only diloco

How much of its exchange Overlap Local-SGD hides is measured in the lab (`convergence_lab`), and
kept in `results/convergence-lab.json`; `--lab` measures it anew, and nothing else.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy import convergence_lab
from paceline.graph.synthetic import TrainingJob, training
from paceline.strategies import Effect, Strategy, kind_of, known

WORKER = Path(__file__).parent / "jobs" / "convergence_worker.py"
KEPT = measure.RESULTS / "convergence-rows.json"
DATA = Path(__file__).parents[3] / "shared" / "data" / "fashion-mnist"
PLAIN = ""
SEEDS = (1, 2, 3)
EPOCHS = 5
ALLOWED_POINTS = 1.0

Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    timed = "--lab" in (sys.argv[1:] if arguments is None else arguments)
    parser = measure.parser(__doc__, waits=timed)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of Fashion-MNIST")
    parser.add_argument("--budget", type=float, default=25.0, metavar="MINUTES")
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="these strategies")
    parser.add_argument("--again", action="store_true", help="train anew what is kept")
    parser.add_argument("--lab", action="store_true", help="what Overlap Local-SGD hides")
    options = parser.parse_args(arguments)
    if options.lab:
        return measure.report("accuracy/convergence-lab", convergence_lab.measured(), options)
    seeds, epochs = (SEEDS[:1], 1) if options.quick else (SEEDS, EPOCHS)
    names = options.only or [name for name in known() if _counts(name)]
    wanted = [(seed, text) for seed in seeds for text in (PLAIN, *map(_default, names))]
    rows = [] if options.again or options.quick else _kept(wanted)
    for row in _trained(options, epochs, [one for one in wanted if not _has(rows, one)]):
        print(_told(row), file=sys.stderr, flush=True)
        rows.append(row)
        if not options.quick:
            _keep(row)
    hidden = {} if options.quick or options.only else convergence_lab.kept()
    found = {**summary(rows, len(wanted)), **hidden}
    return measure.report("accuracy/convergence", found, options, "torch")


def summary(rows: Sequence[Row], wanted: int) -> dict[str, Any]:
    """Each strategy beside plain training of the same seeds."""
    plain = {row["seed"]: row for row in rows if row["strategy"] == PLAIN}
    texts = dict.fromkeys(row["strategy"] for row in rows if row["strategy"] != PLAIN)
    found = [_beside(plain, [r for r in rows if r["strategy"] == text]) for text in texts]
    trained = [row for row in found if "points" in row]
    return {
        "worst_points": max((row["points"] for row in trained), default=None),
        "within_a_point": all(row["points"] <= ALLOWED_POINTS for row in trained),
        "missing": wanted - len(rows),
        "plain_accuracy": _mean([row["accuracy"] for row in plain.values()]),
        "rows": found,
    }


def _beside(plain: dict[int, Row], mine: Sequence[Row]) -> dict[str, Any]:
    told = {"strategy": mine[0]["strategy"], "seeds": len(mine)}
    pairs = [(plain[r["seed"]], r) for r in mine if r["seed"] in plain and "accuracy" in r]
    if not pairs:
        return {**told, "refused": mine[0].get("refused", "no plain training of its seeds")}
    below = [100 * (theirs["accuracy"] - row["accuracy"]) for theirs, row in pairs]
    saved = [1 - r["wire_bytes"] / r.get("plain_bytes", p["wire_bytes"]) for p, r in pairs]
    return {
        **told,
        "effect": kind_of(told["strategy"].partition("(")[0]).effect.value,
        "accuracy": _mean([row["accuracy"] for _, row in pairs]),
        "points": round(statistics.mean(below), 3),  # below plain
        "points_by_seed": [round(each, 2) for each in below],
        "bytes_saved": round(statistics.mean(saved), 4),
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(statistics.mean(values), 5) if values else None


def _counts(name: str) -> bool:
    return kind_of(name).applies and kind_of(name).effect is not Effect.EXACT


def _default(name: str) -> str:
    """At its default settings; where it has none, the first worth trying on a small job."""
    chosen: Strategy | None = next(iter(kind_of(name).choices(training(TrainingJob()))), None)
    try:
        return str(kind_of(name)())
    except TypeError:
        return str(chosen) if chosen else name


def _trained(options: Any, epochs: int, wanted: Sequence[tuple[int, str]]) -> Iterator[Row]:
    """All in one job where none breaks it; behind one that does, the others go on in another."""
    end, left = time.monotonic() + 60 * options.budget, list(wanted)
    while left and time.monotonic() < end:
        with tempfile.TemporaryFile("w+") as errors, _started(options, epochs, left, errors) as job:
            for line in job.stdout or ():
                row: Row = json.loads(line)
                left.remove((row["seed"], row["strategy"]))
                yield {"epochs": epochs, **row}
                if time.monotonic() > end:
                    job.terminate()
                    return
            job.wait()
            errors.seek(0)
            said = errors.read()[-2000:]
        if job.returncode:
            seed, text = left.pop(0)
            yield {"strategy": text, "seed": seed, "refused": f"the job broke: {said}"}


def _started(
    options: Any, epochs: int, wanted: Sequence[tuple[int, str]], errors: IO[str]
) -> "subprocess.Popen[str]":
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = _command(options.data, epochs, wanted)
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
    )


def _command(data: Path, epochs: int, wanted: Sequence[tuple[int, str]]) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    items = [f"{seed} {text}" for seed, text in wanted]
    return [*launcher, str(WORKER), str(data), str(epochs), *items]


def _has(rows: Sequence[Row], wanted: tuple[int, str]) -> bool:
    return any((row["seed"], row["strategy"]) == wanted for row in rows)


def _kept(wanted: Sequence[tuple[int, str]]) -> list[Row]:
    """What is wanted, and was trained with as many epochs."""
    rows = _load().values()
    return [r for r in rows if r["epochs"] == EPOCHS and (r["seed"], r["strategy"]) in wanted]


def _keep(row: Row) -> None:
    """In place of an earlier one. What was refused is asked again another time."""
    if "refused" not in row:
        kept = {**_load(), f"{row['seed']} {row['strategy']}".strip(): row}
        KEPT.write_text(json.dumps(kept, sort_keys=True).replace("}, ", "},\n") + "\n")


def _load() -> dict[str, Row]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def _told(row: Row) -> str:
    name = row["strategy"] or "plain"
    if "refused" in row:
        return f"{name}, seed {row['seed']}: {row['refused']}"
    return f"{name}, seed {row['seed']}: {100 * row['accuracy']:.2f} %"


if __name__ == "__main__":
    main()
