"""Compile a generated C++ source once, cache the library by content, and load it.

The cache key holds the source, the compiler's version and this processor's flags, so a cache shared
between machines is safe. Where the cache folder cannot be written, a temporary one is used.
"""

import ctypes
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from paceline.errors import PacelineError

log = logging.getLogger(__name__)

_FLAGS = (
    "-std=c++20",
    "-O3",
    "-march=native",
    "-ffp-contract=off",  # the interpreter and torch round every product
    "-fno-math-errno",  # lets sqrt be one instruction; results are unchanged
    "-fPIC",
    "-shared",
    "-Wall",
)


class CompileError(PacelineError):
    """There is no compiler, or it refused a generated kernel."""


def load(source: str) -> ctypes.CDLL:
    """The library of a generated source, compiled if it is not in the cache yet."""
    folder = _cache_folder()
    library = folder / f"{_key(source)}.so"
    if not library.exists():
        _compile(source, library)
    return ctypes.CDLL(str(library))


@cache
def compiler() -> str | None:
    """The C++ compiler that would be used, or None."""
    return shutil.which(os.environ.get("CXX", "g++"))


def _compile(source: str, library: Path) -> None:
    """Compile beside the final name and rename, so that ranks may race without harm."""
    if compiler() is None:
        raise CompileError(
            "no C++ compiler: install g++ or name one in CXX; without it the plain "
            "torch.distributed schedule is used"
        )
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        text, built = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
        text.write_text(source)
        command = [str(compiler()), *_FLAGS, str(text), "-o", str(built)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            first = "\n".join(done.stderr.splitlines()[:8])
            raise CompileError(f"{compiler()} refused a generated kernel:\n{first}")
        built.replace(library)


@cache
def _cache_folder() -> Path:
    """Where libraries are kept: PACELINE_CACHE, else the user's cache; else a temporary folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    wanted = Path(os.environ.get("PACELINE_CACHE", Path(home) / "paceline")) / "kernels"
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted
    except OSError as error:
        fallback = Path(tempfile.mkdtemp(prefix="paceline-kernels-"))
        log.warning("kernel cache %s: %s; using %s", wanted, error.strerror, fallback)
        return fallback


def _key(source: str) -> str:
    facts = "\0".join((source, *_FLAGS, _compiler_version(), _processor()))
    return hashlib.sha256(facts.encode()).hexdigest()[:32]


@cache
def _compiler_version() -> str:
    if compiler() is None:
        return "none"
    shown = subprocess.run(
        [str(compiler()), "--version"], capture_output=True, text=True, check=False
    )
    return shown.stdout


@cache
def _processor() -> str:
    """The instruction sets that -march=native would use."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return os.uname().machine
    return next((line for line in lines if line.startswith("flags")), os.uname().machine)
