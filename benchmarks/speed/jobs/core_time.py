"""Where a core's time goes while a pinned worker runs: `CoreTime` read before and after.

Of the worker's threads: time on the core, and time ready to run while something else had it. Of the
core: the kernel's interrupt work (a transfer's packets), time that the hypervisor took, and time
with nothing to do. The core's figures count in hundredths of a second and are right in the mean.
"""

import os
from dataclasses import asdict, dataclass
from pathlib import Path

HERTZ = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CoreTime:
    """Seconds since some moment."""

    running_s: float
    waiting_s: float
    kernel_s: float
    stolen_s: float
    idle_s: float

    def __sub__(self, before: "CoreTime") -> "CoreTime":
        mine, theirs = asdict(self), asdict(before)
        return CoreTime(**{name: mine[name] - theirs[name] for name in mine})


def core_time(core: int) -> CoreTime:
    """Of this process and the core that it is pinned to."""
    threads = [_schedule(path) for path in Path("/proc/self/task").iterdir()]
    ticks = _ticks(core)
    return CoreTime(
        running_s=1e-9 * sum(run for run, _ in threads),
        waiting_s=1e-9 * sum(wait for _, wait in threads),
        kernel_s=(ticks["irq"] + ticks["softirq"]) / HERTZ,
        stolen_s=ticks["steal"] / HERTZ,
        idle_s=(ticks["idle"] + ticks["iowait"]) / HERTZ,
    )


def _schedule(thread: Path) -> tuple[int, int]:
    """Nanoseconds on a core and in the queue for one."""
    try:
        run, wait, _ = (thread / "schedstat").read_text().split()
    except FileNotFoundError:  # it has ended meanwhile, or the kernel keeps no such figures
        return 0, 0
    return int(run), int(wait)


_COLUMNS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def _ticks(core: int) -> dict[str, int]:
    lines = Path("/proc/stat").read_text().splitlines()
    line = next(line for line in lines if line.startswith(f"cpu{core} "))
    return dict(zip(_COLUMNS, map(int, line.split()[1:9])))
