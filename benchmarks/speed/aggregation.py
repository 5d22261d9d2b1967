"""Aggregation in the network: how long a gradient of 1 % non-zeros takes, mode by mode.

Workers (processes) sum a gradient through the user-space switch, whose ports send at 200 Mbit/s.
Modes take turns round by round, dense first: the baseline of the same minute. `sketch_speedup` and
`blocks_speedup` are dense's median over theirs, compression and peeling included; `ideal` is what
their bytes over the link rate would give. `dense_share` is the share of the link's rate that dense
reached: far below 1, the machine was the bottleneck and the speed-ups are not the network's.
Non-zeros are placed at random, which suits blocks worst; `clustered` has them in rows of 256, as
embeddings do. Datagrams are of 8 KB: five Python processes on few cores cannot carry 200 Mbit/s in
Ethernet's frames, and loopback takes larger ones.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

from benchmarks import measure
from paceline.wire.aggregate import Blocks, Integer, Mode, RoundRequest, Sketched, dense, through
from paceline.wire.aggregate.rounds import Array, Floats
from paceline.wire.switch import Rule
from paceline.wire.switch.client import Member, Pace, SwitchClient
from paceline.wire.switch.relay import enlarge

BITS_PER_S, DENSITY, VALUES = 200_000_000, 0.01, 1 << 20
JOB, KEY = 1, b"aggregation"
PACE = Pace(datagram_bytes=8_192, window=16, again_s=0.1)
MODES = ("dense", "integers", "sketch", "blocks")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args(arguments)
    rounds = 2 if options.quick else 8
    scattered = exchanged(options.workers, rounds, 1)
    clustered = exchanged(options.workers, rounds, 256)
    figures = {
        "workers": options.workers,
        "values": VALUES,
        "density": DENSITY,
        **scattered,
        "clustered": clustered,
    }
    return measure.report("speed/aggregation", figures, options)


def exchanged(workers: int, rounds: int, run: int) -> dict[str, Any]:
    """Medians of each mode, and what they say."""
    peers = [_bound() for _ in range(workers)]
    relay, switch = _relay([p.getsockname() for p in peers], workers)
    try:
        started = [_worker(p, switch, w, workers, rounds, run) for w, p in enumerate(peers)]
        said = [process.communicate()[0] for process in started]
    finally:
        relay.kill()
        relay.communicate()
        for peer in peers:
            peer.close()
    if any(process.returncode for process in started):
        raise SystemExit("a worker failed; its error stands above")
    return _judged(json.loads(said[0]))


def _judged(seen: dict[str, Any]) -> dict[str, Any]:
    seconds = {mode: statistics.median(seen["seconds"][mode]) for mode in MODES}
    sent = seen["bytes"]
    ideal = {mode: sent["dense"] / sent[mode] for mode in MODES}
    return {
        **{f"{mode}_s": seconds[mode] for mode in MODES},
        **{f"{mode}_spread": measure.spread(seen["seconds"][mode]) for mode in MODES},
        **{f"{mode}_speedup": seconds["dense"] / seconds[mode] for mode in MODES[1:]},
        "ideal": {mode: ideal[mode] for mode in MODES[1:]},
        "cpu_s": seen["cpu"],
        "repeated": seen["repeated"],
        "dense_share": sent["dense"] * 8 / BITS_PER_S / seconds["dense"],
    }


def _bound() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    enlarge(made)
    made.bind(("127.0.0.1", 0))
    return made


def _relay(
    peers: list[tuple[str, int]], workers: int
) -> tuple["subprocess.Popen[str]", tuple[str, int]]:
    rule = Rule.graded(BITS_PER_S, 1_000_000)
    given = {
        "peers": peers,
        "rule": asdict(rule),
        "job": {"number": JOB, "workers": workers, "key": KEY.hex()},
        "seconds": 3_600,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "paceline.wire.switch.relay"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(given))
    process.stdin.close()
    process.stdin = None
    host, port = json.loads(process.stdout.readline())[-1]
    return process, (host, port)


def _worker(
    peer: socket.socket, switch: tuple[str, int], worker: int, workers: int, rounds: int, run: int
) -> "subprocess.Popen[str]":
    words = [switch[0], switch[1], worker, workers, rounds, run, peer.fileno()]
    return subprocess.Popen(
        [sys.executable, __file__, "worker", *map(str, words)],
        stdout=subprocess.PIPE, text=True, pass_fds=[peer.fileno()],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip


def work(words: Sequence[str]) -> None:
    """One worker: prints seconds and bytes of each mode."""
    host, *numbers = words
    port, worker, workers, rounds, run, descriptor = map(int, numbers)
    made = socket.socket(fileno=descriptor)
    client = SwitchClient(made, (host, port), Member(JOB, worker, workers, KEY), PACE)
    modes: dict[str, Mode] = {
        "dense": dense,
        "integers": Integer(workers),
        "sketch": Sketched(workers, 2 * (1 - (1 - DENSITY) ** workers)),
        "blocks": Blocks(),
    }
    seconds: dict[str, list[float]] = {mode: [] for mode in modes}
    cpu: dict[str, float] = {}
    sent: dict[str, int] = {}
    for turn in range(rounds + 1):
        gradient = sparse(turn * 100 + worker, run)
        for name, mode in modes.items():
            counted = Counted(client)
            wall, busy = time.perf_counter(), time.process_time()
            through(counted, mode(gradient))
            if turn:  # the first is a warm-up
                seconds[name].append(time.perf_counter() - wall)
            cpu[name], sent[name] = time.process_time() - busy, counted.bytes
    seen = {"seconds": seconds, "cpu": cpu, "bytes": sent, "repeated": client.repeated}
    sys.stdout.write(json.dumps(seen))


def sparse(seed: int, run: int) -> Floats:
    """Non-zeros in runs of so many."""
    random = np.random.default_rng(seed)
    there = np.repeat(random.random(VALUES // run) < DENSITY, run)
    return (random.normal(size=VALUES) * there).astype(np.float32)


class Counted:
    """A client that counts the bytes of what is asked."""

    def __init__(self, client: SwitchClient) -> None:
        self.bytes, self._client = 0, client

    def __call__(self, asked: RoundRequest) -> Array:
        self.bytes += asked.values.nbytes
        return self._client(asked)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        work(sys.argv[2:])
    else:
        main()
