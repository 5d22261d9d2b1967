"""Fuzz the readers of files that come from outside: only a `PacelineError` may come out of them.

Every target gets an equal share of a minute (`--quick`: of six seconds) in a process of its own.
atheris guides the bytes by the coverage they reach; where it is not installed, seeds are mutated at
random instead, and `fuzzer` in the result says so. Exit code 1 when an input broke a reader; the
input is kept under /tmp for a test to be made of it.
"""

import hashlib
import importlib.util
import json
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

Target = Callable[[Path], Callable[[bytes], None]]
"""Given a scratch folder, writes seeds into `seeds/` there and returns what to do with bytes."""

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


def graph_header(scratch: Path) -> Callable[[bytes], None]:
    """`header.json` of a graph folder."""
    from paceline.graph import load_graph

    folder = _saved(scratch)
    header = folder / "header.json"
    _seed(scratch, header.read_bytes(), b"{}", b'{"format": "paceline graph", "schema": 2}')

    def read(data: bytes) -> None:
        header.write_bytes(_vouched(data))
        load_graph(folder)

    return read


def graph_table(scratch: Path) -> Callable[[bytes], None]:
    """A Parquet table whose header vouches for it, so that the bytes reach the decoder."""
    from paceline.graph.columns import TABLES, decode

    folder = _saved(scratch)
    names = sorted(path.stem for path in folder.glob("*.parquet"))
    _seed(scratch, *((folder / f"{n}.parquet").read_bytes() for n in names))

    def read(data: bytes) -> None:
        decode(data, TABLES[names[len(data) % len(names)]], "fuzzed table")

    return read


def chakra_trace(scratch: Path) -> Callable[[bytes], None]:
    """A `.et` file of another program."""
    from paceline.graph.chakra import read_chakra, write_chakra

    traces = write_chakra(_drawn(), scratch / "et")
    _seed(scratch, *(path.read_bytes() for path in traces.glob("*.et")))
    alone = scratch / "alone"
    alone.mkdir()

    def read(data: bytes) -> None:
        (alone / "t.0.et").write_bytes(data)
        read_chakra(alone)

    return read


def chakra_beside(scratch: Path) -> Callable[[bytes], None]:
    """`graph.json` beside traces of our own."""
    from paceline.graph.chakra import read_chakra, write_chakra

    beside = write_chakra(_drawn(), scratch / "et") / "graph.json"
    _seed(scratch, beside.read_bytes())

    def read(data: bytes) -> None:
        beside.write_bytes(data)
        read_chakra(beside.parent)

    return read


TARGETS: dict[str, Target] = {
    "graph-header": graph_header,
    "graph-table": graph_table,
    "chakra-trace": chakra_trace,
    "chakra-beside": chakra_beside,
}


def _drawn():
    """A small graph with two ranks, a collective and every kind of column."""
    from paceline.graph import Collective, GraphBuilder, OpKind

    b = GraphBuilder(meta={"source": "drawn"})
    group, joined = b.group("world", (0, 1)), b.instance()
    for rank in (0, 1):
        lane = b.lane(rank)
        first = b.op("matmul", lane, 5, layer="fc", flops=7)
        member = {"kind": OpKind.COLLECTIVE, "collective": Collective.ALL_REDUCE}
        b.op("reduce", lane, 3, after=[first], group=group, instance=joined, **member)
        b.allocate(first, 64)
        b.samples(first, [4, 6])
    return b.build()


def _saved(scratch: Path) -> Path:
    from paceline.graph import save_graph

    return save_graph(_drawn(), scratch / "graph")


def _vouched(data: bytes) -> bytes:
    """The header with a checksum that fits, where it is JSON at all."""
    try:
        body = json.loads(data)
        if not isinstance(body, dict):
            return data
        body.pop("sha256", None)
        canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return data
    return json.dumps({**body, "sha256": hashlib.sha256(canonical.encode()).hexdigest()}).encode()


def _seed(scratch: Path, *seeds: bytes) -> None:
    folder = scratch / "seeds"
    folder.mkdir()
    for number, seed in enumerate(seeds):
        (folder / str(number)).write_bytes(seed)


def _fuzz_apart(name: str, seconds: int) -> dict[str, int]:
    """Run one target in a process of its own, which libFuzzer ends by itself."""
    command = [sys.executable, __file__, "--target", name, "--seconds", str(seconds)]
    with tempfile.TemporaryDirectory() as scratch:  # libFuzzer cleans up nothing
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
    atheris.Setup(["fuzz", *limits, *output, str(scratch / "seeds")], _guarded(read))
    atheris.Fuzz()
    return 0


def _mutate(target: Target, scratch: Path, seconds: int) -> int:
    """Seeds with some bytes changed, some cut out, some doubled."""
    read, chance = _guarded(target(scratch)), random.Random(0)
    seeds = [path.read_bytes() for path in sorted((scratch / "seeds").iterdir())]
    count, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 8)):
            at, size = chance.randrange(len(data) + 1), chance.randint(0, 8)
            data[at : at + size] = chance.randbytes(chance.randint(0, 8))
        read(bytes(data))
        count += 1
    print(f"number_of_executed_units: {count}")
    return 0


def _guarded(read: Callable[[bytes], None]) -> Callable[[bytes], None]:
    from paceline.errors import PacelineError

    def attempt(data: bytes) -> None:
        try:
            read(data)
        except PacelineError:
            return

    return attempt


if __name__ == "__main__":
    raise SystemExit(main())
