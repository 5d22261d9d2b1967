"""What recording costs a step: CPU time of recorded steps against those of the same job before and
after them, over several recordings in turn.

    python benchmarks/overhead/record.py --json

`small` has under 1,000 ops a step, `transformer` some 13,000; `tiny` does hardly any arithmetic in
its 600 ops and shows the worst that can happen. `floor` is what torch's profiler alone would add at
its measured price of an event.
"""

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


MODES = ("plain", "recorded")
STEPS = 20


def run(folder: Path, settings: list[str]) -> None:
    command = [sys.executable, "-m", "paceline", "record", "-o", str(folder), "--steps", str(STEPS)]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(WORKERS)]
    script = [str(ROOT / "examples" / "train.py"), *settings, "--steps", str(4 * STEPS)]
    done = subprocess.run(
        [*command, "--plain", str(STEPS // 2), "--", *torchrun, *script],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(settings)} failed:\n{done.stderr[-4000:]}")


def cpu_ms(told: Any, mode: str) -> float:
    from paceline.record.sidecar import Step

    return statistics.median(s.cpu_ns for s in told.of(Step) if s.mode == mode) / 1e6


def events_a_step(trace: Path) -> float:
    from paceline.record.torch_profile import events_in

    return events_in(trace) / (STEPS + 1)


if __name__ == "__main__":
    main()
