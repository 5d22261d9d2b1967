"""Print all that a bug report needs: versions, engine, compiler, machine, what the lab can do.

Nothing private: no user name, no path, no environment beyond Paceline's own variables. With
`--noise`: how steady this machine is, and which figures can be trusted on it.
"""

import argparse
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from typing import Any

from paceline import __version__
from paceline.cli import Shown
from paceline.engine import engine_name
from paceline.machine import processor

_NEEDED = ("numpy", "pyarrow", "msgspec", "rich", "PyYAML")
_EXTRAS = {
    "torch": "recording and applying: pip install paceline[torch]",
    "protobuf": "Chakra traces: pip install paceline[chakra]",
    "highspy": "placement: pip install paceline[place]",
    "ortools": "placement: pip install paceline[place]",
    "scikit-learn": "the demo: pip install paceline[demo]",
    "wasmtime": "the engine where no native core is: pip install paceline[universal]",
}
"""Optional library -> what needs it and how to get it."""

_LAB_TOOLS = ("ip", "tc", "nft")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--noise", action="store_true", help="watch how steady the machine is")
    parser.add_argument(
        "--seconds", type=_seconds, default=20.0, metavar="N", help="how long to watch (20)"
    )


def run(options: argparse.Namespace) -> Shown:
    if options.noise:
        return _noise(options.seconds)
    facts = diagnosis()
    return Shown(facts, lambda console: _render(facts, console))


def diagnosis() -> dict[str, Any]:
    return {
        "paceline": __version__,
        "engine": engine_name(),
        "compiler": _compiler(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "load": [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "libraries": {name: _version(name) for name in _NEEDED},
        "extras": {name: _version(name) for name in _EXTRAS},
        "lab": _lab(),
        "variables": {k: v for k, v in os.environ.items() if k.startswith("PACELINE_")},
    }


def _memory_gb() -> float | None:
    """None where the system does not say."""
    if not hasattr(os, "sysconf"):
        return None
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)


def _noise(seconds: float) -> Shown:
    from paceline.machine import cores_here, observe, quota_here, steadiness
    from paceline.report.text.noise import show_noise

    cores, quota = cores_here(), quota_here()
    found = steadiness(observe(seconds), cores.count)
    data = {
        **asdict(found),
        "trust": [{**asdict(row), "measurable": row.measurable} for row in found.trust],
        "cores": asdict(cores),
        "quota": quota and asdict(quota),
    }
    return Shown(data, lambda console: show_noise(found, cores, quota, console))


def _seconds(text: str) -> float:
    """A length of watching that fills at least a few windows of 100 ms."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 3600")
    return seconds


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _compiler() -> str | None:
    """What would build the native core: the first line of `c++ --version`."""
    found = shutil.which(os.environ.get("CXX", "")) or shutil.which("c++") or shutil.which("g++")
    return _first_line([found, "--version"]) if found else None


def _lab() -> dict[str, Any]:
    """Whether emulated clusters can be stood up here: root, namespaces, and the tools."""
    tools = {name: _first_line([name, "-V"]) for name in _LAB_TOOLS if shutil.which(name)}
    return {
        "root": hasattr(os, "geteuid") and os.geteuid() == 0,
        "network namespaces": os.path.exists("/proc/self/ns/net"),
        **{name: tools.get(name) for name in _LAB_TOOLS},
    }


def _first_line(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0].strip() if lines else None


def _render(facts: Mapping[str, Any], console: Any) -> None:
    from paceline.report.text.facts import facts_table

    console.print(facts_table(facts))
    for name in (name for name, version in facts["extras"].items() if version is None):
        console.print(f"{name} is not installed; it is for {_EXTRAS[name]}", markup=False)
