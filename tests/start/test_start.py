"""What processes of tests load as they start hides nothing of the machine's own."""

import os
import subprocess
import sys
from pathlib import Path

HERE = str(Path(__file__).parent)


def test_a_sitecustomize_behind_ours_is_still_run(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('of the machine')")
    path = os.pathsep.join([HERE, HERE, str(tmp_path)])
    code = "import gc, sys; print(gc.get_threshold()[0], sys.argv[0])"
    shown = subprocess.check_output(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, text=True
    )
    assert shown.split("\n")[:2] == ["of the machine", "1000000 -c"]
