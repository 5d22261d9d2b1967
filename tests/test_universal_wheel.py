"""The wheel without compiled code: it holds the WebAssembly module, and replays with it."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.needs("webassembly", "wasmtime")
def test_the_universal_wheel_replays_with_webassembly(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-C", "wheel.cmake=false"]
    subprocess.run([*pip, "-w", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "site")
    libraries = sysconfig.get_path("purelib")  # without what installs Paceline itself there
    code = (
        f"import sys; sys.path += [{str(tmp_path / 'site')!r}, {libraries!r}]\n"
        "import paceline; from paceline.engine import engine_name\n"
        "from paceline.graph.synthetic import jumble\n"
        "print(paceline.__file__, engine_name(), paceline.replay(jumble(4)).step_ns)"
    )
    shown = subprocess.check_output([sys.executable, "-I", "-S", "-c", code], text=True)
    assert shown.startswith(str(tmp_path))
    assert "WebAssembly (wasmtime" in shown
