"""What recording costs a step: CPU time of recorded steps against those of the same job before and
after them, over several recordings in turn.

    python benchmarks/overhead/record.py --json

`small` has under 1,000 ops a step, `transformer` some 13,000; `tiny` does hardly any arithmetic in
its 600 ops and shows the worst that can happen. `floor` is what torch's profiler alone would add at
its measured price of an event.

`pulse_overhead` is what the counters and the pulse add to the CPU time of a step, from 300 steps of
which one of each two has them, in each of some jobs; `pulse_floor`, two standard errors, is what
cannot be told from nothing, and `pulse_measurable` says whether that leaves something to decide.
`pulse_wall` is the share of the time in which they kept the training thread.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402

JOBS = {
    "small": ["--model", "mlp", "--batch", "32"],
    "transformer": ["--model", "transformer", "--batch", "4"],
    "tiny": ["--model", "small", "--batch", "32"],
}
WORKERS = 2


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="recordings of each job (3)")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds = 1
    found: dict[str, list[dict[str, float]]] = {name: [] for name in JOBS}
    for _ in range(options.rounds):
        for name, settings in JOBS.items():
            found[name].append(recorded(settings))
    figures = {name: statistics.median(x["ratio"] for x in runs) for name, runs in found.items()}
    figures |= pulse(1, 100) if options.quick else pulse(PULSE_JOBS, PULSE_STEPS)
    detail = {f"{name}_runs": runs for name, runs in found.items()}
    return measure.report("overhead/record", {**figures, **detail}, options, "torch")


def recorded(settings: list[str]) -> dict[str, float]:
    """One recording: its plain and its recorded steps, CPU milliseconds, mean over the ranks."""
    from paceline.record import sidecar

    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), settings)
        told = [sidecar.read(path) for path in sorted(Path(folder).glob("rank-*.facts.jsonl"))]
        plain, watched = (statistics.mean(cpu_ms(one, mode) for one in told) for mode in MODES)
        events = statistics.mean(events_a_step(path) for path in Path(folder).glob("*.trace.json"))
    price = statistics.mean(one.of(sidecar.Cost)[0].op_ns for one in told)
    return {
        "ratio": round(watched / plain, 4),
        "plain_ms": round(plain, 3),
        "recorded_ms": round(watched, 3),
        "ops": round(events),
        "floor": round(1 + events * price / 1e6 / plain, 4),
    }


PULSE_STEPS, PULSE_JOBS = 300, 4
PULSE_ASKED = 0.005

Rows = list[list[int]]
"""Of one rank: whether a step was watched, its CPU and wall ns, and those of the instruments."""


def pulse(jobs: int, steps: int) -> dict[str, float | bool]:
    """Steps with counters and pulse against steps without."""
    ranks = [rows for _ in range(jobs) for rows in watched_job(steps)]
    added, error = overhead(ranks)
    watched = [row for rows in ranks for row in rows if row[0]]
    return {
        "pulse_overhead": round(added, 5),
        "pulse_floor": round(2 * error, 5),
        "pulse_measurable": 2 * error <= PULSE_ASKED / 2,
        "pulse_wall": round(sum(row[3] for row in watched) / sum(row[2] for row in watched), 5),
    }


def watched_job(steps: int) -> list[Rows]:
    with tempfile.TemporaryDirectory() as folder:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(WORKERS)]
        script = [str(Path(__file__).parent / "jobs" / "pulse.py"), "--out", folder]
        carried_out([*torchrun, *script, "--steps", str(steps)])
        return [json.loads(path.read_text()) for path in sorted(Path(folder).glob("rows.*.json"))]


def overhead(ranks: list[Rows]) -> tuple[float, float]:
    """Of pairs of steps of one rank: how much more CPU time the watched one took, and the standard
    error of that. The tenth at either end, where neighbours show, is left out."""
    pairs = [sorted(pair) for rows in ranks for pair in zip(rows[::2], rows[1::2])]
    more = sorted((watched[1] - bare[1]) / bare[1] for bare, watched in pairs)
    cut = len(more) // 10
    kept = more[cut : len(more) - cut]
    return statistics.mean(kept), statistics.stdev(kept) / len(kept) ** 0.5


MODES = ("plain", "recorded")
STEPS = 20


def run(folder: Path, settings: list[str]) -> None:
    command = [sys.executable, "-m", "paceline", "record", "-o", str(folder), "--steps", str(STEPS)]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(WORKERS)]
    script = [str(ROOT / "examples" / "train.py"), *settings, "--steps", str(4 * STEPS)]
    carried_out([*command, "--plain", str(STEPS // 2), "--", *torchrun, *script])


def carried_out(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")


def cpu_ms(told: Any, mode: str) -> float:
    from paceline.record.sidecar import Step

    return statistics.median(s.cpu_ns for s in told.of(Step) if s.mode == mode) / 1e6


def events_a_step(trace: Path) -> float:
    from paceline.record.torch_profile import events_in

    return events_in(trace) / (STEPS + 1)


if __name__ == "__main__":
    main()
