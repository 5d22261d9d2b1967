"""Build the engine as WebAssembly: `python native/wasm/build.py OUT.wasm`, with PyPI's ziglang.

The C++ library's headers are used and the library is not: building zig's own takes minutes, and
replay needs a page of it, which memory.cpp has. What is left is zig's C library for wasi, seconds.
The module asks its host for nothing.
"""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
NATIVE = HERE.parent
CACHE = NATIVE.parent / "build" / "zig"
REPLAY = (
    "program pull events cores sharing shaped slack editable".split()  # native/replay_*.cpp
)
OTHERS = ("flows", "flows_saved", "levels")
FLAGS = (
    "-target wasm32-wasi -mexec-model=reactor -std=c++20 -O3 -s -Wall -Wextra "
    "-fno-exceptions -fno-rtti -ffp-contract=off -nostdlib++ -nostdinc++ "
    "-D_LIBCPP_ABI_VERSION=1 -D_LIBCPP_ABI_NAMESPACE=__1 -D_LIBCPP_HAS_THREADS=0 "
    "-D_LIBCPP_HAS_MONOTONIC_CLOCK=0 -D_LIBCPP_HAS_TERMINAL=0 -D_LIBCPP_HAS_MUSL_LIBC=0 "
    "-D_LIBCPP_HAS_FILESYSTEM=0 -D_LIBCPP_HAS_RANDOM_DEVICE=0 -D_LIBCPP_HAS_LOCALIZATION=0 "
    "-D_LIBCPP_HAS_UNICODE=0 -D_LIBCPP_HAS_WIDE_CHARACTERS=0 -D_LIBCPP_HAS_TIME_ZONE_DATABASE=0 "
    "-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0 -D_LIBCPP_PSTL_BACKEND_SERIAL "
    "-D_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS "
    "-D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE"
).split()


def sources() -> list[Path]:
    replay = [NATIVE / f"replay_{part}.cpp" for part in REPLAY]
    return [*sorted(HERE.glob("*.cpp")), *replay, *(NATIVE / f"{name}.cpp" for name in OTHERS)]


def build(out: Path) -> None:
    found = find_spec("ziglang")
    if found is None or found.origin is None:
        raise SystemExit("ziglang is not installed: pip install 'paceline[wasm]'")
    library = Path(found.origin).parent / "lib"
    headers = [f"-I{library / part / 'include'}" for part in ("libcxx", "libcxxabi")]
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        made = Path(folder) / out.name
        caches = {f"ZIG_{which}_CACHE_DIR": str(CACHE) for which in ("GLOBAL", "LOCAL")}
        zig = [sys.executable, "-m", "ziglang", "c++", *FLAGS, *headers, f"-I{NATIVE}"]
        subprocess.run([*zig, *map(str, sources()), "-o", str(made)], check=True, env=caches | os.environ)
        made.replace(out)  # whole or not at all


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    build(Path(sys.argv[1]))
