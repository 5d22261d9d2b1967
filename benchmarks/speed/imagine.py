"""How long it takes to imagine one rank of 4,096 whose script shards its model over all of them.

The example script unchanged, with FSDP2: an MLP, and a transformer of twelve layers. Two steps
each, one to settle and one to keep. Every run is a process of its own that has imported torch
before; `command_s` is a whole `paceline imagine` from the shell. Beside it the same with torch's
own cache of fake results (`torchs_seconds`), in turn; `vs_torchs` is how many times as long. The
bound is the kept step alone: no model is made, nothing is done that is done once.

    python benchmarks/speed/imagine.py --json
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure

JOB = Path(__file__).parent / "jobs" / "one_rank.py"
TRAIN = Path(__file__).parents[2] / "examples" / "train.py"
MODELS = ("mlp", "transformer")
WORLD = 4096


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    rounds = 1 if options.quick else options.rounds
    rows = [row(model, rounds) for model in MODELS]
    worst = max(rows, key=lambda one: float(one["seconds"]["median"]))
    found = {
        "seconds": worst["seconds"]["median"],
        "steady_s": worst["steady_s"]["median"],
        "bound_share": worst["steady_s"]["median"] / worst["seconds"]["median"],
        "vs_torchs": worst["torchs_seconds"]["median"] / worst["seconds"]["median"],
        "rows": rows,
    }
    return measure.report("speed/imagine", found, options, "torch")


def row(model: str, rounds: int) -> dict[str, Any]:
    """One model's medians with their spread."""
    told: dict[str, list[dict[str, float]]] = {"ours": [], "torchs": []}
    commands = []
    for _ in range(rounds):
        for fakes, runs in told.items():
            runs.append(_job(model, fakes))
        commands.append(_command(model))
    ours, torchs = told["ours"], told["torchs"]
    return {
        "model": model,
        "ops": ours[0]["ops"],
        **{key: measure.spread([one[key] for one in ours]) for key in ours[0] if key != "ops"},
        "torchs_seconds": measure.spread([one["seconds"] for one in torchs]),
        "command_s": measure.spread(commands),
    }


def _job(model: str, fakes: str) -> dict[str, float]:
    command = [sys.executable, str(JOB), model, str(WORLD), fakes]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise SystemExit(f"{model} failed:\n{done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _command(model: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        script = [str(TRAIN), "--model", model, "--parallel", "fsdp2"]
        command = ["-m", "paceline", "imagine", "-o", folder, "--world-size", str(WORLD), "--"]
        start = time.perf_counter()
        subprocess.run([sys.executable, *command, *script], check=True, capture_output=True)
        return time.perf_counter() - start


if __name__ == "__main__":
    main()
