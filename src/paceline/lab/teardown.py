"""Removing labs by name: their processes, namespaces, control groups and registry files.

Names are read from the machine itself, so that a lab whose maker was killed is found too, and
nothing that the lab did not make is touched.
"""

import os
import select
import signal
import subprocess
from collections.abc import Iterable

from paceline.lab import commands, quota, registry
from paceline.lab.access import Access
from paceline.lab.errors import LabError
from paceline.lab.layout import PREFIX

PATIENCE_S = 5.0  # a killed process that is still there after this hangs in the kernel


def tear_down(name: str) -> None:
    """Remove the lab of this name with all that is in it; fine where parts are gone already."""
    entry = next((e for e in registry.entries() if e.name == name), registry.Entry(name))
    access = access_of(entry)
    if access is not None:
        mine = [n for n in namespaces(access) if n.split(".")[1] == name]
        end_processes(_inside(access, mine))
        if mine:
            access.run(commands.teardown(mine))
        if entry.holder is not None:
            end_processes([entry.holder.pid])
    quota.remove_all(name)
    registry.release(name)


def standing() -> list[str]:
    """Names of all labs of this user, whether or not their registry file survived."""
    names = {entry.name for entry in registry.entries()}
    if os.geteuid() == 0:
        names |= {n.split(".")[1] for n in namespaces(Access())} | set(quota.labs())
    return sorted(names)


def access_of(entry: registry.Entry) -> Access | None:
    """The way into a lab, or None where what held it open has ended (and it with it)."""
    if entry.holder is None:
        return Access() if os.geteuid() == 0 else None
    return Access(entry.holder.pid) if entry.holder.alive else None


def namespaces(access: Access) -> list[str]:
    """The namespaces that labs have made."""
    shown = subprocess.run(
        access.command(["ip", "netns", "list"]), capture_output=True, text=True, check=False
    )
    if shown.returncode:
        raise LabError(f"network namespaces cannot be listed: {shown.stderr.strip()}")
    names = [line.split()[0] for line in shown.stdout.splitlines() if line]
    return [n for n in names if n.startswith(f"{PREFIX}.") and n.count(".") == 2]


def end_processes(pids: Iterable[int]) -> None:
    """Kill, and wait until they are gone."""
    fds = [fd for pid in pids if (fd := _kill(pid)) is not None]
    for fd in fds:
        ended, _, _ = select.select([fd], [], [], PATIENCE_S)
        os.close(fd)
        if not ended:
            raise LabError(
                f"a process in the lab did not end within {PATIENCE_S:g} s of being killed; "
                "it hangs in the kernel. Try lab down again later."
            )


def _kill(pid: int) -> int | None:
    """Kill one process; a descriptor that tells its end, or None where it has ended."""
    try:
        fd = os.pidfd_open(pid)
        signal.pidfd_send_signal(fd, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return fd


def _inside(access: Access, mine: list[str]) -> list[int]:
    """Processes inside namespaces, as seen from here."""
    if not mine:
        return []
    script = "\n".join(f"ip netns pids {name}" for name in mine)
    shown = subprocess.run(
        access.command(["sh", "-c", script]), capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in shown.stdout.split()]
