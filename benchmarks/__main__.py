"""`make bench`: run every benchmark, each in a process of its own, and keep its result.

    python -m benchmarks                    # all of them, kept in benchmarks/results
    python -m benchmarks speed/replay fuzz  # some of them
    python -m benchmarks --quick            # a minute each at most; tables keep the full figures

Exit code 1 when one of them failed; those for which the machine is too noisy are named. Afterwards
the README's tables are written anew.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.floors import NOT_MEASURABLE

HERE = Path(__file__).parent
KINDS = ("speed", "accuracy", "overhead")
ALONE = ("fuzz", "workload_sweep", "workloads")  # of no kind
VARIANTS = (
    "accuracy/retarget-any",
    "accuracy/retarget-parallel",
    "accuracy/retarget-suite",
    "accuracy/self_replay-suite",
)
"""Benchmarks that another one holds behind an option."""
Command = tuple[str, ...]


def main(arguments: list[str] | None = None) -> int:
    known = benchmarks()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    parser.add_argument("--quick", action="store_true", help="a minute each at most")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(known)}")
    chosen = options.names or list(known)
    codes = {name: _run(name, known[name], options.quick) for name in chosen}
    noisy = [name for name, code in codes.items() if code == NOT_MEASURABLE]
    failed = [name for name, code in codes.items() if code not in (0, NOT_MEASURABLE)]
    print(f"{len(chosen) - len(failed)} of {len(chosen)} benchmarks ran")
    if noisy:
        print(f"not measurable on this machine now: {', '.join(noisy)}")
    if failed:
        print(f"failed: {', '.join(failed)}")
    elif not options.quick:
        _run("README tables", (str(HERE / "tables.py"),), quick=False, save=False)
    return int(bool(failed))


def benchmarks() -> dict[str, Command]:
    """Every benchmark by name: a file that tells a parser of arguments what it is for, and an
    option where it has several."""
    files = [
        *(HERE / f"{name}.py" for name in ALONE),
        *(f for kind in KINDS for f in sorted((HERE / kind).glob("*.py"))),
    ]
    found = [file for file in files if "parser(__doc__" in file.read_text()]
    whole = {str(file.relative_to(HERE).with_suffix("")): (str(file),) for file in found}
    parts = {name: name.split("-") for name in VARIANTS}
    return whole | {name: (*whole[file], f"--{option}") for name, (file, option) in parts.items()}


def _run(name: str, command: Command, quick: bool, save: bool = True) -> int:
    """Run one, its output passed through; returns its exit code."""
    flags = ["--save"] * save + ["--quick"] * quick
    print(f"== {name}", flush=True)
    begin = time.monotonic()
    code = subprocess.run([sys.executable, *command, *flags], cwd=HERE.parent).returncode
    print(f"== {name}: exit code {code} after {time.monotonic() - begin:.0f} s\n", flush=True)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
