"""`HostSettings`: what weave takes from the environment, read once where a program starts.

| variable | means |
|---|---|
| `PACELINE_SHM` | folder of shared memory (/dev/shm) |
| `CXX` | C++ compiler (g++) |
| `PACELINE_CACHE`, `XDG_CACHE_HOME` | folder of kernels and tuning results (~/.cache/paceline) |
| `GLOO_SOCKET_IFNAME` | interface on which ranks reach each other; the first of several |
| `MASTER_ADDR`, `MASTER_PORT` | where ranks meet: the route there tells this host's address |
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class HostSettings:
    """Folders, the compiler, and how other ranks reach this host."""

    shared_memory: Path = Path("/dev/shm")
    compiler: str = "g++"
    cache: Path = Path("~/.cache/paceline")
    interface: str = ""
    master: tuple[str, int] | None = None

    @staticmethod
    def of(environment: Mapping[str, str]) -> "HostSettings":
        base = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        address = environment.get("MASTER_ADDR")
        port = int(environment.get("MASTER_PORT", "1"))
        return HostSettings(
            shared_memory=Path(environment.get("PACELINE_SHM", "/dev/shm")),
            compiler=environment.get("CXX", "g++"),
            cache=Path(environment.get("PACELINE_CACHE") or Path(base) / "paceline"),
            interface=environment.get("GLOO_SOCKET_IFNAME", "").split(",")[0],
            master=(address, port) if address else None,
        )

    @staticmethod
    def here() -> "HostSettings":
        """Of this process as it is."""
        return HostSettings.of(os.environ)
