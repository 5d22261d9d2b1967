"""Compile a generated C++ source once, cache the library by content, and load it.

The cache key holds the source, the compiler's version and this processor's flags, so a cache shared
between machines is safe. Where the cache folder cannot be written, a temporary one is used.
Compiler and folder are those of the `HostSettings`.
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
from paceline.weave.host import HostSettings

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


def load(source: str, host: HostSettings) -> ctypes.CDLL:
    """The library of a generated source, compiled if it is not in the cache yet."""
    found = compiler(host)
    library = _cache_folder(host.cache) / f"{_key(source, found)}.so"
    if not library.exists():
        _compile(source, library, found)
    return ctypes.CDLL(str(library))


def compiler(host: HostSettings) -> str | None:
    """The C++ compiler that would be used, or None."""
    return shutil.which(host.compiler)


def _compile(source: str, library: Path, compiler: str | None) -> None:
    """Compile beside the final name and rename, so that ranks may race without harm."""
    if compiler is None:
        raise CompileError(
            "no C++ compiler: install g++ or name one in CXX; without it the plain "
            "torch.distributed schedule is used"
        )
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        text, built = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
        text.write_text(source)
        command = [compiler, *_FLAGS, str(text), "-o", str(built)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            first = "\n".join(done.stderr.splitlines()[:8])
            raise CompileError(f"{compiler} refused a generated kernel:\n{first}")
        built.replace(library)


@cache
def _cache_folder(kept: Path) -> Path:
    """Where libraries are kept: below the cache's folder, else a temporary one."""
    wanted = kept / "kernels"
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted
    except OSError as error:
        fallback = Path(tempfile.mkdtemp(prefix="paceline-kernels-"))
        log.warning("kernel cache %s: %s; using %s", wanted, error.strerror, fallback)
        return fallback


def _key(source: str, compiler: str | None) -> str:
    facts = "\0".join((source, *_FLAGS, _compiler_version(compiler), _processor()))
    return hashlib.sha256(facts.encode()).hexdigest()[:32]


@cache
def _compiler_version(compiler: str | None) -> str:
    if compiler is None:
        return "none"
    shown = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return shown.stdout


@cache
def _processor() -> str:
    """The instruction sets that -march=native would use."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return os.uname().machine
    return next((line for line in lines if line.startswith("flags")), os.uname().machine)
