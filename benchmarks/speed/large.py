"""A run of more than a thousand ranks: its import, `show`, and what-ifs; seconds and peak memory.

The trace is rank 0 of 2 of a real job (A100, three steps, 40,533 events, NCCL kernels with their
groups). 1,480 copies of it, each with its own rank and with all of them as the group's members,
make a job of 60 million events; `--quick` takes 64, 2.6 million. Each stage is a process of its
own, so that its peak is its own.

`import_s` reads the packed files on two worker processes, one task per rank, and keeps the graph;
`peak_gb` is that of the importing process and of its largest workers together. `show_s` is
`paceline show`, from opening the kept graph to the summary. `whatif_s` scales every kernel of the
whole graph and replays it; `whatif_condensed_s` makes the same change to the typical step. Opening
the graph and condensing it, which is done once for many questions, stand apart. `speed/spread`
sets two workers against one, over the tasks of such an import.
"""

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402

EVENTS = 40_533
SHARED = Path(os.environ.get("PACELINE_SHARED", ROOT.parent / "shared"))
TRACE = SHARED / "data" / "traces" / "nccl-metadata" / "nccl_data.json.gz"
RANKS, QUICK = 1480, 64
WORKERS = 2

STAGE = """
import json, resource, sys, time
from pathlib import Path
from dataclasses import replace
begun = time.perf_counter()
found = {}
def note(name):
    global begun
    found[name] = time.perf_counter() - begun
    begun = time.perf_counter()
folder, on = Path(sys.argv[1]), sys.argv[2]
STAGE_BODY
peaks = [resource.getrusage(who).ru_maxrss * 1024 / 1e9
         for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({**found, "peaks_gb": peaks}))
"""

IMPORT = """
from paceline.trace.importing import Import, import_traces
graph = import_traces([folder / "traces"], folder / "run", Import(on=on))
note("import_s")
found["ops"], found["dependencies"] = len(graph), len(graph.deps)
"""

SHOW = """
from paceline.replay import replay
from paceline.report import summarise
from paceline.report.run import summarise_run
from paceline.trace.runs import open_run
graph = open_run(folder / "run")
note("open_s")
timeline = replay(graph)
note("replay_s")
summarise(timeline), summarise_run(timeline)
note("summary_s")
"""

WHATIF = """
from paceline.graph.condense import Grain, condense
from paceline.predict.classes import step_ns
from paceline.replay import replay
from paceline.strategies import parse
from paceline.trace.runs import open_run
graph = open_run(folder / "run")
note("open_s")
change = parse("scale(select='kind=compute', factor=0.5)")
found["step_ns"] = step_ns(replay(change.transform(graph)))
note("whatif_s")
step = condense(graph, Grain.EVENT)
note("condense_s")
found["condensed_step_ns"] = step_ns(replay(change.transform(step)))
note("whatif_condensed_s")
found["condensed_ops"] = len(step)
"""


def main() -> None:
    options = measure.parser(__doc__ or "").parse_args()
    if not TRACE.exists():
        sys.exit(f"{TRACE} is not there: the data set is kept beside the checkout")
    ranks = QUICK if options.quick else RANKS
    with tempfile.TemporaryDirectory(prefix="paceline-large-") as scratch:
        folder = Path(scratch)
        prepare(folder / "traces", ranks)
        made = stage(IMPORT, folder, f"processes:{WORKERS}")
        shown, asked = stage(SHOW, folder), stage(WHATIF, folder)
        figures = {
            "ranks": ranks,
            "events": ranks * EVENTS,
            "import_s": made["import_s"],
            "peak_gb": made["peaks_gb"][0] + WORKERS * made["peaks_gb"][1],
            "show_s": sum(shown[name] for name in ("open_s", "replay_s", "summary_s")),
            "whatif_s": asked["whatif_s"],
            "whatif_condensed_s": asked["whatif_condensed_s"],
            "stages": {"import": made, "show": shown, "whatif": asked},
        }
    measure.report("speed/large", figures, options, "msgspec", "pyarrow")


def prepare(folder: Path, ranks: int) -> None:
    """Packed copies, each with its own rank. What ranks have in common is packed once: a gzip file
    may have several parts."""
    folder.mkdir(parents=True)
    text = gzip.decompress(TRACE.read_bytes())
    told = re.search(rb'"rank": 0, "world_size": 2', text)
    assert told is not None
    everyone = json.dumps(list(range(ranks))).encode()
    head = text[: told.start()]
    tail = text[told.end() :].replace(b'"[0, 1]"', b'"' + everyone + b'"')
    packed = gzip.compress(tail, 6)
    for rank in range(ranks):
        mine = head + b'"rank": %d, "world_size": %d' % (rank, ranks)
        (folder / f"rank-{rank:04}.json.gz").write_bytes(gzip.compress(mine, 1) + packed)


def stage(body: str, folder: Path, on: str = "") -> dict[str, Any]:
    """In a process of its own."""
    code = STAGE.replace("STAGE_BODY", body)
    command = [sys.executable, "-c", code, str(folder), on]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if shown.returncode:
        sys.exit(shown.stderr)
    found: dict[str, Any] = json.loads(shown.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
