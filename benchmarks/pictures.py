"""Makes the pictures of docs/images anew: `python -m benchmarks.pictures` (Chromium, Pillow).

They are screenshots of the page of a recorded job of this repository, light and dark: its top, the
timeline, the sliders; and a moving one of a slider that is dragged, frame by frame.
"""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks import in_browser, measure
from paceline.cluster import parse
from paceline.graph import load_graph
from paceline.report.page import PageRequest, carried_by_default, gather, write_page

PICTURED = Path(__file__).parents[1] / "web" / "test" / "pictured.js"
IMAGES = Path(__file__).parents[1] / "docs" / "images"
JOB = measure.RESULTS / "recordings" / "transformer"
OFFICE = "name: office\nhosts: 2\nlink: {rate: 1Gbps, latency: 50us}\n"
DRAG = (*range(13), *range(11, -7, -1), *range(-5, 1))
"""Where the slider of the link rate stands, frame by frame: faster, slower, back."""
FRAME_MS, PAUSE_MS = 90, 900
WIDTH = 860
MOST_BYTES = 1_500_000


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        taken(page(folder), folder)
        for still in folder.glob("report-*.png"):
            shutil.copy(still, IMAGES / still.name)
        for scheme in ("light", "dark"):
            frames = sorted(folder.glob(f"drag-{scheme}-*.png"))
            print(moving(frames, IMAGES / f"report-drag-{scheme}.webp"))


def page(folder: Path) -> Path:
    """The page that is looked at."""
    graph, office = load_graph(JOB), parse(OFFICE)
    carried = carried_by_default(graph, office)
    asked = PageRequest(JOB.name, graph, cluster=office, strategies=carried)
    return write_page(gather(asked), folder / "report.html")


def taken(file: Path, folder: Path) -> None:
    """Screenshots, by web/test/pictured.js."""
    asked = {
        "chromium": in_browser.browser(),
        "file": str(file),
        "folder": str(folder),
        "drag": DRAG,
    }
    subprocess.run(["node", str(PICTURED), json.dumps(asked)], check=True)


def moving(frames: list[Path], into: Path) -> str:
    """One file of all frames; it rests where the drag begins."""
    from PIL import Image

    opened = [Image.open(frame).convert("RGB") for frame in frames]
    wide, tall = opened[0].size
    size = (WIDTH, round(tall * WIDTH / wide))
    shown = [image.resize(size, Image.Resampling.LANCZOS) for image in opened]
    lasts = [PAUSE_MS, *[FRAME_MS] * (len(shown) - 2), PAUSE_MS]
    first, *others = shown
    first.save(into, save_all=True, append_images=others, duration=lasts, loop=0,
               quality=72, method=3)  # fmt: skip
    bytes_taken = into.stat().st_size
    if bytes_taken > MOST_BYTES:
        raise SystemExit(f"{into.name} has {bytes_taken:,} bytes, more than {MOST_BYTES:,}")
    return f"{into.name}: {len(shown)} frames, {bytes_taken:,} bytes"


if __name__ == "__main__":
    if in_browser.browser() is None:
        raise SystemExit("this opens pages in Chromium, and there is none: apt install chromium")
    main()
