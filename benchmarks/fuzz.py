"""Fuzz the readers of files that come from outside: only a `PacelineError` may come out of them.

Every target gets an equal share of a minute (`--quick`: of six seconds) in a process of its own.
atheris guides the bytes by the coverage they reach; where it is not installed, seeds are mutated at
random instead, and `fuzzer` in the result says so. Exit code 1 when an input broke a reader; the
input is kept under /tmp for a test to be made of it.
"""

import importlib.util
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import measure
from benchmarks.fuzz_targets import TARGETS, Target

SECONDS, QUICK_SECONDS = 60, 6


def main(arguments: list[str] | None = None) -> int:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--target", choices=TARGETS, help="fuzz one reader in this process")
    parser.add_argument("--seconds", type=int, help="of the whole run, or of the one target")
    options = parser.parse_args(arguments)
    total = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    if options.target:
        return _fuzz_here(TARGETS[options.target], total)
    guided = importlib.util.find_spec("atheris") is not None
    share = max(1, total // len(TARGETS))
    results = {name: _fuzz_apart(name, share) for name in TARGETS}
    figures = {
        "fuzzer": "atheris" if guided else "random mutations (atheris is not installed)",
        "seconds": share * len(TARGETS),
        "inputs": sum(r["inputs"] for r in results.values()),
        "crashes": sum(r["crashes"] for r in results.values()),
        "targets": results,
    }
    measure.report("fuzz", figures, options, "atheris", "pyarrow", "protobuf")
    return int(figures["crashes"] > 0)


def _fuzz_apart(name: str, seconds: int) -> dict[str, int]:
    """Run one target in a process of its own, which libFuzzer ends by itself."""
    command = [sys.executable, __file__, "--target", name, "--seconds", str(seconds)]
    with tempfile.TemporaryDirectory(dir=in_memory()) as scratch:  # libFuzzer cleans up nothing
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=tempfile.gettempdir(),
            env={**os.environ, "TMPDIR": scratch},
        )
    told = re.findall(r"number_of_executed_units: (\d+)", done.stdout + done.stderr)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-4000:], file=sys.stderr)
    return {"inputs": int(told[-1]) if told else 0, "crashes": int(done.returncode != 0)}


def in_memory() -> str | None:
    """A folder that needs no disk, where the system has one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _fuzz_here(target: Target, seconds: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        if importlib.util.find_spec("atheris") is None:
            return _mutate(target, scratch, seconds)
        return _guide(target, scratch, seconds)


def _guide(target: Target, scratch: Path, seconds: int) -> int:
    import atheris

    with atheris.instrument_imports(include=["paceline"]):
        read = target(scratch)
    limits = [f"-max_total_time={seconds}", "-rss_limit_mb=4096", "-max_len=8192"]
    output = ["-print_final_stats=1", "-artifact_prefix=paceline-fuzz-"]
    atheris.Setup(["fuzz", *limits, *output, str(scratch / "seeds")], guarded(read))
    atheris.Fuzz()
    return 0


def _mutate(target: Target, scratch: Path, seconds: int) -> int:
    read, chance = guarded(target(scratch)), random.Random(0)
    seeds = [path.read_bytes() for path in sorted((scratch / "seeds").iterdir())]
    count, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        read(mutated(chance.choice(seeds), chance))
        count += 1
    print(f"number_of_executed_units: {count}")
    return 0


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """A seed with some bytes changed, some cut out, some put in."""
    data = bytearray(seed)
    for _ in range(chance.randint(1, 8)):
        at, size = chance.randrange(len(data) + 1), chance.randint(0, 8)
        data[at : at + size] = chance.randbytes(chance.randint(0, 8))
    return bytes(data)


def guarded(read: Callable[[bytes], None]) -> Callable[[bytes], None]:
    from paceline.errors import PacelineError

    def attempt(data: bytes) -> None:
        try:
            read(data)
        except PacelineError:
            return

    return attempt


if __name__ == "__main__":
    raise SystemExit(main())
