"""Resident memory of one replay, in a process of its own: how much more than the graph it takes.

Prints one JSON object. Growth is that of the kernel's own count (VmRSS, and its peak VmHWM, which
is set back before each phase), so it holds the allocator's overhead and all that is dropped again.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from paceline.graph import Discipline
from paceline.graph.synthetic import Ring, ring
from paceline.replay import replay
from paceline.replay.program import program


def main(ranks: int) -> dict[str, float]:
    graph = ring(Ring(ranks=ranks, jitter=0.05, discipline=Discipline.PRIORITY))
    before = resident_bytes("VmRSS")
    forget_peak()
    program(graph)
    compiling, compiled = resident_bytes("VmHWM"), resident_bytes("VmRSS")
    forget_peak()
    timeline = replay(graph)
    peak, held = resident_bytes("VmHWM"), resident_bytes("VmRSS")
    ops = len(timeline.end_ns)
    return {
        "measured_ops": ops,
        "bytes_per_op_measured": (peak - before) / ops,
        "bytes_per_op_measured_program": (compiled - before) / ops,
        "bytes_per_op_measured_compiling": (compiling - before) / ops,
        "bytes_per_op_measured_held": (held - before) / ops,
    }


def resident_bytes(field: str) -> int:
    """A field of /proc/self/status, which counts in kB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


def forget_peak() -> None:
    """The peak so far becomes what is resident now (proc(5), clear_refs)."""
    Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
