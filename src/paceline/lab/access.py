"""Who may build a lab: root, or anyone the kernel lets have a user namespace of their own.

`Access.prefix` goes before every command. As root it is empty. Otherwise a holder process keeps a
user, mount and network namespace open, and commands enter it; the lab lasts as long as the holder.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.lab.commands import Script
from paceline.lab.errors import LabError

TOOLS = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables"}
"""Commands the lab needs and the Debian package of each; `nft` only to lose packets."""

_HOLD = "mount -t tmpfs paceline /run && mkdir /run/netns && echo ready && exec sleep infinity"


@dataclass(frozen=True)
class Access:
    """How commands reach the lab. `holder` is the process that keeps a user namespace open."""

    holder: int | None = None

    @property
    def is_root(self) -> bool:
        return self.holder is None

    @property
    def prefix(self) -> tuple[str, ...]:
        if self.holder is None:
            return ()
        return ("nsenter", "-t", str(self.holder), "-U", "-m", "-n", "--preserve-credentials")

    def command(self, arguments: Sequence[str], namespace: str | None = None) -> list[str]:
        inside = ("ip", "netns", "exec", namespace) if namespace else ()
        return [*self.prefix, *inside, *arguments]

    def start(self, script: Script) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            self.command(["sh", "-s"], script.namespace),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(script.text)
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, *scripts: Script) -> None:
        """Run scripts side by side; the first that fails is reported with what it said."""
        processes = [(script, self.start(script)) for script in scripts]
        ends = [(script, p.communicate()[1], p.returncode) for script, p in processes]
        for script, said, code in ends:
            if code:
                raise LabError(explain(script, said))


def open_access(*, ends_with_us: bool) -> Access:
    """Root where we are root, else a user namespace; a clear error where neither is allowed.

    The namespace's holder ends with us, or stays until the lab is removed.
    """
    require_tools(["ip", "tc"])
    if os.geteuid() == 0:
        return Access()
    require_tools(["unshare", "nsenter", "setpriv"])
    until = ["setpriv", "--pdeathsig", "KILL", "--"] if ends_with_us else []
    own = ["unshare", "--user", "--map-root-user", "--net", "--mount"]
    process = subprocess.Popen(
        [*own, *until, "sh", "-c", _HOLD],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    if process.stdout.readline().strip() == "ready":
        return Access(process.pid)
    said = process.communicate()[1].strip()
    raise LabError(
        f"the lab needs root or user namespaces, and this user may have neither ({said}). "
        "Run it as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
        "user.max_user_namespaces above 0). Recording, predicting and searching work without."
    )


def require_tools(names: Sequence[str]) -> None:
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        packages = sorted({TOOLS.get(name, "util-linux") for name in missing})
        raise LabError(
            f"the lab needs {', '.join(missing)}, not found on this machine; "
            f"install {' and '.join(packages)} (apt-get install {' '.join(packages)})"
        )


def explain(script: Script, said: str) -> str:
    """What the kernel or a tool refused, with what usually helps."""
    where = f" in {script.namespace}" if script.namespace else ""
    hint = next((text for sign, text in _HINTS.items() if sign in said), "")
    return f"building the lab failed{where}: {said.strip()}. {hint}".rstrip()


_HINTS = {
    "Operation not permitted": "It needs root, or CAP_NET_ADMIN and CAP_SYS_ADMIN.",
    "I/O error": "The kernel refuses this congestion control inside a namespace until the machine "
    "allows it: sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic', or choose reno.",
    "Specified qdisc kind is unknown": "This kernel has no HTB or bfifo queueing discipline "
    "(modules sch_htb, sch_fifo).",
    "Could not process rule": "This kernel has no nftables rule for random loss.",
}
